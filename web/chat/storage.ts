/** Which models this browser keeps, read from the engine's store. */

import { defaultsFrom } from "../engine/model-defaults.ts";
import { type SamplingParams, samplingParams } from "../engine/sampling.ts";
import type { BundleManifest } from "../format/manifest.ts";
import { parseManifest } from "../format/manifest-reader.ts";
import { evict, openStore, type Store, usage } from "../store/store.ts";
import type { Offer } from "./offers.ts";

export interface KeptModel {
  readonly name: string;
  /** Of the bundle's folder, absolute. */
  readonly url: string;
  /** Bytes of it that are here; what models share counts for each. */
  readonly bytes: number;
  /** Whether its weights are all here, so that it opens without a network. */
  readonly complete: boolean;
}

export interface Kept {
  readonly models: readonly KeptModel[];
  readonly usage: number;
  readonly quota: number;
}

/** The model's own sampling settings, and whether it says how long an answer may be. */
export interface Defaults {
  readonly params: SamplingParams;
  readonly maxTokens: number | undefined;
}

/** What `BundleFiles.open` names the manifests it keeps. */
const MANIFEST = "manifest ";
const GENERATION = "generation_config.json";

/** Models of which something is on this device. */
export async function keptModels(): Promise<Kept> {
  const store = await openStore();
  const blobs = [...(await store.list()), ...(await store.listPartial())];
  const sizes = new Map(blobs.map(({ sha256, bytes }) => [sha256, bytes]));
  const whole = new Set((await store.list()).map(({ sha256 }) => sha256));
  const models: KeptModel[] = [];
  for (const [url, manifest] of await manifests(store)) {
    const bytes = hashes(manifest, [...manifest.files.keys()]).reduce(
      (sum, hash) => sum + (sizes.get(hash) ?? 0),
      0,
    );
    const complete = hashes(manifest, weights(manifest)).every((hash) => whole.has(hash));
    if (bytes > 0) models.push({ name: manifest.name, url, bytes, complete });
  }
  const space = await usage();
  return { models, usage: space?.usage ?? 0, quota: space?.quota ?? 0 };
}

/** What of an offered model is on this device. */
export function keptOf(kept: Kept | null, offer: Offer): KeptModel | null {
  const url = absolute(offer.url);
  return kept?.models.find((model) => model.url === url) ?? null;
}

/** Forget a model; what another model shares with it stays. */
export async function removeModel(url: string): Promise<void> {
  const store = await openStore();
  await store.removeNote(MANIFEST + url);
  const others = [...(await manifests(store)).values()];
  const keep = others.flatMap((manifest) => hashes(manifest, [...manifest.files.keys()]));
  await evict(store, new Set(keep));
}

/** What a model consists of, as the host has it now or as it was used last; null where neither is. */
export async function manifestOf(offer: Offer): Promise<BundleManifest | null> {
  const url = absolute(offer.url);
  try {
    const response = await fetch(`${url}bundle.json`, { cache: "no-cache" });
    if (response.ok) return await parseManifest(new Uint8Array(await response.arrayBuffer()));
  } catch {
    // Without a network, or with one that cannot be read: what is here will do.
  }
  return readManifest(await openStore(), url);
}

/** What a loaded model does where a person sets nothing; null where that cannot be found out. */
export async function modelDefaults(offer: Offer): Promise<Defaults | null> {
  try {
    const { defaults } = defaultsFrom(await generationConfig(absolute(offer.url)));
    return { params: samplingParams(defaults), maxTokens: defaults.maxTokens };
  } catch {
    return null;
  }
}

async function generationConfig(url: string): Promise<Uint8Array | null> {
  const store = await openStore();
  const manifest = await readManifest(store, url);
  const entry = manifest?.files.get(GENERATION);
  if (manifest && !entry) return null;
  const kept = entry ? await store.read(entry.sha256) : null;
  if (kept) return kept;
  const response = await fetch(url + GENERATION);
  return response.ok ? new Uint8Array(await response.arrayBuffer()) : null;
}

async function manifests(store: Store): Promise<Map<string, BundleManifest>> {
  const found = new Map<string, BundleManifest>();
  for (const key of await store.notes()) {
    if (!key.startsWith(MANIFEST)) continue;
    const url = key.slice(MANIFEST.length);
    const manifest = await readManifest(store, url);
    if (manifest) found.set(url, manifest);
  }
  return found;
}

/** The manifest used last; null where there is none, or none that can be read any more. */
async function readManifest(store: Store, url: string): Promise<BundleManifest | null> {
  const data = await store.note(MANIFEST + url);
  try {
    return data ? await parseManifest(data) : null;
  } catch {
    return null;
  }
}

/** Paths of the weights of a manifest's WebGPU programs. */
function weights({ programs, layouts }: BundleManifest): readonly string[] {
  const used = programs.filter(({ target }) => target === "webgpu").map(({ layout }) => layout);
  const tensors = [...new Set(used)].flatMap((layout) => [
    ...(layouts.get(layout)?.values() ?? []),
  ]);
  return [...new Set(tensors.map(({ file }) => file))];
}

/** Under which names the store keeps some files of a bundle. */
function hashes({ files }: BundleManifest, paths: readonly string[]): readonly string[] {
  return paths.flatMap((path) => {
    const entry = files.get(path);
    if (!entry) return [];
    return entry.chunks.length > 0 ? entry.chunks : [entry.sha256];
  });
}

function absolute(url: string): string {
  return new URL(url, document.baseURI).href;
}
