/** What a page of KV memory is called: a hash over everything that its contents depend on. As in Python's `kv/keys.py`. */

import { hex, sha256 } from "../digest.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import type { Program } from "../format/manifest.ts";
import { VERSION } from "../format/seal.ts";
import { COMPACT, pythonJson } from "./python-json.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Json = ReadonlyMap<string, unknown>;

/**
 * The key of a page.
 *
 * @param before 32 bytes: the key of the page before, `rootKey` for a sequence's first page.
 * @param tokens ids of the page's tokens.
 */
export function pageKey(before: Bytes, tokens: readonly number[]): Promise<Bytes> {
  const data = new Uint8Array(before.length + 4 + 4 * tokens.length);
  data.set(before); // and 4 bytes, how many extras there are: none
  const view = new DataView(data.buffer);
  for (const [at, token] of tokens.entries())
    view.setUint32(before.length + 4 + 4 * at, token, true);
  return sha256(data);
}

/**
 * The key before a sequence's first page: the weights that the program reads and the layout of its KV.
 *
 * @param manifest what bundle.json says, as `unseal` reads it; it is known to be a manifest.
 */
export function rootKey(manifest: unknown, program: Program): Promise<Bytes> {
  const whole = mapOf(manifest);
  const tensors = tensorsOf(whole, program);
  const files = mapOf(whole.get("files"));
  const places = [...tensors].map(([name, tensor]) => {
    const { file, offset, dtype, shape } = Object.fromEntries(mapOf(tensor));
    return [name, [file, offset, dtype, shape]] as const;
  });
  const read = new Set(places.map(([, [file]]) => String(file)));
  const described = new Map<string, unknown>([
    ["version", VERSION],
    ["tensors", new Map(places)],
    ["files", new Map([...read].map((file) => [file, files.get(file)]))],
    ["state", whole.get("state_groups")],
    ["dtype", program.stateDtype],
  ]);
  return sha256(encoded(pythonJson(described)));
}

/** Which code and which plans wrote a page: its bits are those of another producer only by accident. */
export async function producerOf(manifest: unknown, program: Program): Promise<string> {
  const digest = hex(await sha256(encoded(pythonJson(codeOf(manifest, program), COMPACT))));
  return `${program.target}/${program.id}/${digest}`;
}

/** All that decides what a program's code does. As `digest` in Python's `trust.py`. */
function codeOf(manifest: unknown, program: Program): Json {
  const whole = mapOf(manifest);
  const tensors = tensorsOf(whole, program);
  const files = mapOf(whole.get("files"));
  const used = new Set([
    ...(program.library === null ? [] : [program.library]),
    ...program.shaders.values(),
    ...program.plans.values(),
    ...[...tensors.values()].map((tensor) => String(mapOf(tensor).get("file"))),
  ]);
  return new Map<string, unknown>([
    ["version", VERSION],
    ["model", whole.get("model")],
    ["state_groups", arrayOf(whole.get("state_groups")).map((one) => groupOf(one, program))],
    ["tensors", tensors],
    ["program", without(programOf(whole, program.id), "signature")],
    ["files", new Map([...used].map((path) => [path, mapOf(files.get(path)).get("sha256")]))],
  ]);
}

/** A program without int8 state has no scales. */
function groupOf(group: unknown, { stateDtype }: Program): Json {
  return stateDtype === "int8" ? mapOf(group) : without(mapOf(group), "scales");
}

function tensorsOf(manifest: Json, { layout }: Program): Json {
  return mapOf(mapOf(mapOf(manifest.get("layouts")).get(layout)).get("tensors"));
}

function programOf(manifest: Json, id: string): Json {
  const found = arrayOf(manifest.get("programs")).find((one) => mapOf(one).get("id") === id);
  return mapOf(found);
}

function without(map: Json, name: string): Json {
  return new Map([...map].filter(([key]) => key !== name));
}

function mapOf(value: unknown): Json {
  if (value instanceof Map) return value;
  throw new EdgewiseError("bundle.type", `bundle.json has ${shorten(value)} for an object.`);
}

function arrayOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new EdgewiseError("bundle.type", `bundle.json has ${shorten(value)} for a list.`);
}

function encoded(text: string): Bytes {
  return new TextEncoder().encode(text);
}
