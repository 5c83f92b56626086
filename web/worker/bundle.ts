/** A bundle over HTTP: its manifest, and its files as they are asked for. */

import { EdgewiseError } from "../errors.ts";
import { countValues } from "../format/json.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import { parseManifest } from "../format/manifest-reader.ts";
import type { Plan } from "../format/plan.ts";
import { parsePlan } from "../format/plan-reader.ts";
import { checkProgram, checkProgramPlan } from "../format/program-checks.ts";
import { PROOF, type Proof, parseProof } from "../format/proof.ts";
import { digestOf, MAX_BYTES, unseal } from "../format/seal.ts";
import { fetchAll } from "../store/download.ts";
import { pieces } from "../store/pieces.ts";
import type { Store } from "../store/store.ts";
import { eachPart } from "../store/stream.ts";

/** Bytes of what is read whole at most: tokenizers are the largest of it. */
const MAX_WHOLE = 64 << 20;
/** Bytes of all plans of a program at most, and values of them, as `countValues` counts. */
const MAX_PLANS = 1 << 24;
const MAX_PLANS_VALUES = 1 << 20;

/** Reads files of one bundle, from the store where they are there. */
export class BundleFiles {
  readonly base: string;
  readonly manifest: BundleManifest;
  /** What bundle.json carries of itself: two bundles with the same one are the same. */
  readonly digest: string;
  private readonly bytes: Uint8Array;
  private readonly store: Store;
  private readonly signal: AbortSignal;

  private constructor(
    base: string,
    manifest: BundleManifest,
    bytes: Uint8Array,
    store: Store,
    signal: AbortSignal,
  ) {
    this.base = base;
    this.manifest = manifest;
    this.digest = digestOf(bytes);
    this.bytes = bytes;
    this.store = store;
    this.signal = signal;
  }

  /**
   * Read a bundle's manifest: the host's, or where that cannot be reached the one used last.
   *
   * @throws EdgewiseError `load.http`, `store.network`, `bundle.*`, `load.aborted`.
   */
  static async open(url: string, store: Store, signal: AbortSignal): Promise<BundleFiles> {
    const base = url.endsWith("/") ? url : `${url}/`;
    const note = `manifest ${base}`;
    let bytes: Uint8Array;
    try {
      bytes = await download(new URL("bundle.json", base), signal);
      await store.setNote(note, bytes);
    } catch (error) {
      const kept = signal.aborted ? null : await store.note(note);
      if (!kept || !(error instanceof EdgewiseError) || error.code !== "store.network") throw error;
      bytes = kept;
    }
    return new BundleFiles(base, await parseManifest(bytes), bytes, store, signal);
  }

  /** What bundle.json says, unread: hashes are made of that. */
  source(): Promise<unknown> {
    return unseal(this.bytes);
  }

  /** The contents of several files by their paths; those that the bundle does not have are left out. */
  async read(
    paths: readonly string[],
    signal = this.signal,
  ): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
    const there = [...new Set(paths)].filter((path) => this.manifest.files.has(path));
    for (const path of there) {
      const bytes = this.manifest.files.get(path)?.bytes ?? 0;
      if (bytes > MAX_WHOLE) {
        throw new EdgewiseError(
          "bundle.size",
          `The file ${path} has ${bytes} bytes; ${MAX_WHOLE} are read at most.`,
        );
      }
    }
    const wanted = pieces(this.manifest, there, this.base);
    const found = await fetchAll(wanted, this.store, { signal });
    const contents = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const path of there) {
      const parts = wanted.filter((piece) => piece.path === path);
      contents.set(path, joined(parts.flatMap(({ sha256 }) => found.get(sha256) ?? [])));
    }
    return contents;
  }

  /** One file, null where the bundle does not have it. */
  async file(path: string, signal = this.signal): Promise<Uint8Array<ArrayBuffer> | null> {
    return (await this.read([path], signal)).get(path) ?? null;
  }

  /** Whether the store has all of a file. */
  async kept(path: string): Promise<boolean> {
    const wanted = pieces(this.manifest, [path], this.base);
    const there = await Promise.all(wanted.map(({ sha256 }) => this.store.has(sha256)));
    return there.every((one) => one);
  }

  /** What every program must answer; null where the bundle does not say. */
  async proof(): Promise<Proof | null> {
    const data = await this.file(PROOF);
    return data && parseProof(data, this.manifest.model.vocab);
  }

  /** A plan of a program. */
  async plan(program: Program, name: string): Promise<Plan> {
    const plan = parsePlan(await this.required(program.plans.get(name) ?? ""));
    checkProgramPlan(this.manifest, program, name, plan);
    return plan;
  }

  /** Every plan of a program by name, checked together. */
  async allPlans(program: Program): Promise<Map<string, Plan>> {
    const paths = [...program.plans.values()];
    const size = paths.reduce((sum, path) => sum + (this.manifest.files.get(path)?.bytes ?? 0), 0);
    if (size > MAX_PLANS) {
      const message = `its plans have ${size} bytes; ${MAX_PLANS} are read at most`;
      throw new EdgewiseError("bundle.size", `Program ${JSON.stringify(program.id)}: ${message}.`);
    }
    const files = await this.read(paths);
    const plans = new Map<string, Plan>();
    let left = MAX_PLANS_VALUES;
    for (const [name, path] of program.plans) {
      const data = files.get(path);
      if (!data) throw missing(path);
      plans.set(name, parsePlan(data, left));
      left -= countValues(data);
    }
    checkProgram(this.manifest, program, plans);
    return plans;
  }

  /** The WGSL of one kernel. */
  async shader(program: Program, kernel: string): Promise<string> {
    return text(await this.required(program.shaders.get(kernel) ?? ""), kernel);
  }

  /** The WGSL of every kernel of a program by its path. */
  async allShaders(program: Program): Promise<Map<string, string>> {
    const files = await this.read([...program.shaders.values()]);
    return new Map([...files].map(([path, data]) => [path, text(data, path)]));
  }

  private async required(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const data = await this.file(path);
    if (!data) throw missing(path);
    return data;
  }
}

function missing(path: string): EdgewiseError {
  return new EdgewiseError("bundle.missing", `The bundle has no file ${JSON.stringify(path)}.`);
}

function text(data: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch (cause) {
    throw EdgewiseError.from(cause, "bundle.shader", `The shader ${what} is no text`);
  }
}

/** A whole small file that nothing has the sha256 of. */
async function download(url: URL, signal: AbortSignal): Promise<Uint8Array> {
  try {
    return await receiveWhole(url, signal);
  } catch (cause) {
    if (signal.aborted) {
      throw new EdgewiseError("load.aborted", "Loading was cancelled.", "Load again to go on.");
    }
    throw EdgewiseError.from(
      cause,
      "store.network",
      `${url} cannot be reached`,
      "Check the connection and that the host is running.",
    );
  }
}

async function receiveWhole(url: URL, signal: AbortSignal): Promise<Uint8Array> {
  const response = await fetch(url, { signal, cache: "no-cache" });
  if (!response.ok) {
    throw new EdgewiseError(
      "load.http",
      `${url} answered ${response.status} ${response.statusText}.`,
      "Check the address: it must be the folder that has bundle.json.",
    );
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  if (!response.body) return joined(parts);
  await eachPart(response.body, (part) => {
    size += part.length;
    if (size > MAX_BYTES) {
      throw new EdgewiseError("bundle.size", `${url} is larger than ${MAX_BYTES} bytes.`);
    }
    parts.push(part);
    return true;
  });
  return joined(parts);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
