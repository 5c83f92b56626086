/** Reading `bundle.json` from JSON that nobody vouches for. */

import { shorten } from "../errors.ts";
import {
  type BundleManifest,
  CHUNK_BYTES,
  type Entry,
  type FileEntry,
  type ModelInfo,
  type Needs,
  type Program,
  type StateGroup,
  type TensorEntry,
  VERSION,
} from "./manifest.ts";
import { DTYPES } from "./plan.ts";
import { Fields, HEX_SHA256, ID, LIMIT, NAME, parseJson } from "./reading.ts";

const MAX_FILES = 65536;
const MAX_TENSORS = 65536;
const MAX_PROGRAMS = 256;
const MAX_PLANS = 256;
const MAX_LAYERS = 4096;
const MAX_SHADERS = 4096;
const MAX_CHUNKS = 65536;
const TENSOR_ALIGNMENT = 64;
const DTYPE_NAMES = [...DTYPES.keys()];

/**
 * Relative paths with forward slashes whose parts begin with a letter, digit or underscore: never
 * absolute, never `..`, no backslash, drive letter, NUL or hidden file.
 */
const PATH = /^(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*\/)*[A-Za-z0-9_][A-Za-z0-9_.+-]*$/;

/**
 * Read and check a manifest.
 *
 * @throws EdgewiseError `bundle.*`: whatever is wrong with it; nothing else.
 */
export function parseManifest(data: Uint8Array): BundleManifest {
  return readManifest(parseJson(data, "bundle.json", "bundle"));
}

/** `parseManifest` of what `parseJson` gave. */
export function readManifest(value: unknown): BundleManifest {
  const fields = part(value, "bundle.json");
  const version = fields.get("version");
  if (version !== VERSION) {
    throw fields.fail(
      "version",
      `version ${shorten(version)} is not ${VERSION}, the one this runtime reads`,
      "Compile the model again with this version of edgewise, or update edgewise.",
    );
  }
  const files = new Map<string, FileEntry>();
  for (const [path, item] of fields.table("files", MAX_FILES, null)) {
    checkPlain(fields, path);
    files.set(path, readFile(part(item, `bundle.json, file ${shorten(path)}`)));
  }
  const model = readModel(part(fields.get("model"), "bundle.json, model"));
  const manifest: BundleManifest = {
    name: fields.text("name", ID),
    model,
    weightsId: fields.text("weights_id", HEX_SHA256),
    createdBy: readCreatedBy(fields),
    stateGroups: fields
      .items("state_groups", 64)
      .map((item, i) => readGroup(part(item, `bundle.json, state group ${i}`), model)),
    layouts: mapValues(fields.table("layouts", 16, ID), (item, name) =>
      readLayout(part(item, `bundle.json, layout ${shorten(name)}`), files),
    ),
    programs: fields
      .items("programs", MAX_PROGRAMS)
      .map((item, i) => readProgram(part(item, `bundle.json, program ${i}`))),
    files,
  };
  fields.done();
  checkPrograms(fields, manifest);
  return manifest;
}

function part(value: unknown, where: string): Fields {
  return new Fields(value, where, "bundle");
}

function mapValues<T>(
  table: ReadonlyMap<string, unknown>,
  read: (value: unknown, key: string) => T,
): Map<string, T> {
  return new Map([...table].map(([key, value]) => [key, read(value, key)]));
}

function checkPlain(fields: Fields, path: string): void {
  if (path.length > 512 || !PATH.test(path) || path === "bundle.json") {
    throw fields.fail("path", `${shorten(path)} is no plain relative path`);
  }
}

function readPath(fields: Fields, key: string): string {
  const path = fields.text(key, null, 512);
  checkPlain(fields, path);
  return path;
}

function readFile(fields: Fields): FileEntry {
  const bytes = fields.integer("bytes", 0, LIMIT - 1);
  const sha256 = fields.text("sha256", HEX_SHA256);
  const chunks = fields.has("chunks") ? fields.items("chunks", MAX_CHUNKS) : [];
  const wanted = bytes > CHUNK_BYTES ? Math.ceil(bytes / CHUNK_BYTES) : 0;
  if (chunks.length !== wanted || (wanted === 0 && fields.has("chunks"))) {
    throw fields.fail("chunks", `${chunks.length} chunks for ${bytes} bytes, not ${wanted}`);
  }
  const hashes = chunks.map((chunk) => {
    if (typeof chunk !== "string" || !HEX_SHA256.test(chunk)) {
      throw fields.fail("chunks", `${shorten(chunk)} is no sha256`);
    }
    return chunk;
  });
  fields.done();
  return { bytes, sha256, chunks: hashes };
}

function readCreatedBy(fields: Fields): Map<string, string> {
  const inner = part(fields.get("created_by"), "bundle.json, created_by");
  const keys = [...fields.table("created_by", 16).keys()];
  return new Map(keys.map((key) => [key, inner.text(key)]));
}

/** Whole numbers of a list, each in `low..high`. */
function integers(
  fields: Fields,
  key: string,
  most: number,
  low: number,
  high: number,
): readonly number[] {
  return fields.items(key, most).map((item) => {
    if (typeof item !== "number" || !Number.isInteger(item) || item < low || item > high) {
      throw fields.fail("range", `${shorten(key)} holds ${shorten(item)}, outside ${low}..${high}`);
    }
    return item;
  });
}

function readModel(fields: Fields): ModelInfo {
  const vocab = fields.integer("vocab", 1, 2 ** 24);
  const model: ModelInfo = {
    eos: integers(fields, "eos", 16, 0, vocab - 1),
    family: fields.text("family", ID),
    hidden: fields.integer("hidden", 1, 2 ** 20),
    layers: fields.integer("layers", 1, MAX_LAYERS),
    heads: fields.integer("heads", 1, 2 ** 12),
    kvHeads: fields.integer("kv_heads", 1, 2 ** 12),
    headDim: fields.integer("head_dim", 1, 2 ** 12),
    intermediate: fields.integer("intermediate", 1, 2 ** 22),
    vocab,
    context: fields.integer("context", 1, 2 ** 22),
    maxBatch: fields.integer("max_batch", 1, 2 ** 12),
    prefillChunk: fields.integer("prefill_chunk", 1, 2 ** 16),
    bos: fields.nullable("bos", () => fields.integer("bos", 0, vocab - 1)),
    quant: fields.choice("quant", ["f32", "f16", "q8", "q4"]),
  };
  fields.done();
  return model;
}

function readGroup(fields: Fields, model: ModelInfo): StateGroup {
  const group: StateGroup = {
    layers: integers(fields, "layers", MAX_LAYERS, 0, model.layers - 1),
    kind: fields.choice("kind", ["paged", "recurrent"]),
    window: fields.nullable("window", () => fields.integer("window", 1, 2 ** 22)),
    pageTokens: fields.integer("page_tokens", 1, 2 ** 12),
    kvHeads: fields.integer("kv_heads", 1, 2 ** 12),
    headDim: fields.integer("head_dim", 1, 2 ** 12),
    buffers: fields.names("buffers", MAX_LAYERS),
  };
  const { buffers, layers } = group;
  if (buffers.length !== layers.length || new Set(layers).size !== layers.length) {
    throw fields.fail("state", `${buffers.length} buffers for layers ${shorten(layers)}`);
  }
  fields.done();
  return group;
}

function readLayout(
  fields: Fields,
  files: ReadonlyMap<string, FileEntry>,
): Map<string, TensorEntry> {
  const tensors = mapValues(fields.table("tensors", MAX_TENSORS), (item, name) =>
    readTensor(part(item, `${fields.where}, tensor ${shorten(name)}`), files),
  );
  fields.done();
  return tensors;
}

function readTensor(fields: Fields, files: ReadonlyMap<string, FileEntry>): TensorEntry {
  const entry: TensorEntry = {
    shape: integers(fields, "shape", 8, 1, LIMIT - 1),
    file: readPath(fields, "file"),
    dtype: fields.choice("dtype", DTYPE_NAMES),
    offset: fields.integer("offset", 0, LIMIT - 1),
    bytes: fields.integer("bytes", 1, LIMIT - 1),
  };
  fields.done();
  const { file, dtype, shape, offset, bytes } = entry;
  const size = files.get(file)?.bytes;
  if (size === undefined)
    throw fields.fail("unknown_name", `'files' does not list ${shorten(file)}`);
  if (offset % TENSOR_ALIGNMENT) {
    throw fields.fail("offset", `offset ${offset} is no multiple of ${TENSOR_ALIGNMENT}`);
  }
  if (offset + bytes > size) {
    const message = `it ends at byte ${offset + bytes} of ${shorten(file)}, which has ${size}`;
    throw fields.fail("extent", message);
  }
  if (shape.reduce((a, b) => a * b, DTYPES.get(dtype) ?? 0) !== bytes) {
    throw fields.fail("extent", `${dtype} ${shorten(shape)} does not take ${bytes} bytes`);
  }
  return entry;
}

function readNeeds(fields: Fields): Needs {
  const needs: Needs = {
    arch: fields.nullable("arch", () => fields.text("arch", ID)),
    features: fields.names("features", 64, ID),
  };
  fields.done();
  return needs;
}

function readProgram(fields: Fields): Program {
  const id = fields.text("id", ID);
  fields.where = `bundle.json, program ${shorten(id)}`;
  const paths = (key: string, most: number): Map<string, string> => {
    const inner = part(fields.get(key), `${fields.where}, ${key}`);
    return mapValues(fields.table(key, most), (_, name) => readPath(inner, name));
  };
  const program: Program = {
    id,
    plans: paths("plans", MAX_PLANS),
    shaders: paths("shaders", MAX_SHADERS),
    target: fields.text("target", ID),
    arithmetic: fields.text("arithmetic", ID),
    layout: fields.text("layout", ID),
    needs: readNeeds(part(fields.get("needs"), `${fields.where}, needs`)),
    library: fields.nullable("library", () => readPath(fields, "library")),
    entries: mapValues(fields.table("entries", 64), (items, key) => {
      if (!Array.isArray(items) || items.length < 1 || items.length > MAX_PLANS) {
        throw fields.fail("type", `the entries of ${shorten(key)} must be a list of plans`);
      }
      return items.map((item) => readEntry(part(item, `${fields.where}, entry ${shorten(key)}`)));
    }),
    stateDtype: fields.choice("state_dtype", ["float32", "float16"]),
    signature: fields.has("signature") ? fields.text("signature", HEX_SHA256) : null,
  };
  fields.done();
  return program;
}

function readEntry(fields: Fields): Entry {
  const when = mapValues(fields.table("when", 16), (item, name): readonly [number, number] => {
    if (!Array.isArray(item) || item.length !== 2) {
      throw fields.fail("type", `the range of ${shorten(name)} must be [low, high]`);
    }
    const [low, high] = item.map((bound: unknown) => {
      if (typeof bound !== "number" || !Number.isInteger(bound) || bound < 0 || bound >= LIMIT) {
        throw fields.fail("range", `the range of ${shorten(name)} holds ${shorten(bound)}`);
      }
      return bound;
    }) as [number, number];
    if (low > high) {
      throw fields.fail("range", `the range ${low}..${high} of ${shorten(name)} is empty`);
    }
    return [low, high];
  });
  const entry = { when, plan: fields.text("plan", NAME) };
  fields.done();
  return entry;
}

function checkPrograms(fields: Fields, manifest: BundleManifest): void {
  const ids = new Set<string>();
  for (const program of manifest.programs) {
    const where = `program ${shorten(program.id)}`;
    if (ids.has(program.id)) {
      throw fields.fail("duplicate", `two programs are called ${shorten(program.id)}`);
    }
    ids.add(program.id);
    if (!manifest.layouts.has(program.layout)) {
      const message = `${where}: no layout is called ${shorten(program.layout)}`;
      throw fields.fail("unknown_name", message);
    }
    const library = program.library === null ? [] : [program.library];
    for (const path of [...program.plans.values(), ...library, ...program.shaders.values()]) {
      if (!manifest.files.has(path)) {
        throw fields.fail("unknown_name", `${where}: 'files' does not list ${shorten(path)}`);
      }
    }
    for (const [operation, entries] of program.entries) {
      for (const { plan } of entries) {
        if (program.plans.has(plan)) continue;
        const message = `${where}, entry ${shorten(operation)}: no plan is called ${shorten(plan)}`;
        throw fields.fail("unknown_name", message);
      }
    }
  }
}
