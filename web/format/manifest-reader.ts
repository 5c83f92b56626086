/** Reading `bundle.json` from JSON that nobody vouches for. */

import { shorten } from "../errors.ts";
import { checkFacts } from "./facts.ts";
import {
  type BundleManifest,
  CHUNK_BYTES,
  type FileEntry,
  type ModelInfo,
  SCHEMES,
  type StateGroup,
  type TensorEntry,
} from "./manifest.ts";
import { checkPath, integers, mapValues, part, readPath } from "./manifest-parts.ts";
import { checkPrograms, MAX_GROUPS, readProgram } from "./manifest-programs.ts";
import { DTYPES } from "./plan.ts";
import { type Fields, HEX_SHA256, ID, LIMIT } from "./reading.ts";
import { checkVersion, unseal } from "./seal.ts";

const MAX_FILES = 65536;
const MAX_TENSORS = 65536;
const MAX_PROGRAMS = 256;
const MAX_LAYERS = 4096;
const MAX_CHUNKS = 65536;
const TENSOR_ALIGNMENT = 64;
const DTYPE_NAMES = [...DTYPES.keys()];

/**
 * Read and check a manifest, its own digest first.
 *
 * @throws EdgewiseError `bundle.*`: whatever is wrong with it; nothing else.
 */
export async function parseManifest(data: Uint8Array): Promise<BundleManifest> {
  return readManifest(await unseal(data));
}

/** `parseManifest` of what `unseal` gave. */
export function readManifest(value: unknown): BundleManifest {
  const fields = checkVersion(value);
  const files = new Map<string, FileEntry>();
  for (const [path, item] of fields.table("files", MAX_FILES, null)) {
    checkPath(fields, path);
    files.set(path, readFile(part(item, `bundle.json, file ${shorten(path)}`)));
  }
  const model = readModel(part(fields.get("model"), "bundle.json, model"));
  const manifest: BundleManifest = {
    name: fields.text("name", ID),
    model,
    weightsId: fields.text("weights_id", HEX_SHA256),
    createdBy: readCreatedBy(fields),
    stateGroups: fields
      .items("state_groups", MAX_GROUPS)
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
  checkFacts(manifest);
  return manifest;
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
    quant: fields.choice("quant", SCHEMES),
    recipe: fields.has("recipe") ? fields.text("recipe", ID) : null,
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
    scales: fields.has("scales") ? fields.names("scales", MAX_LAYERS) : [],
  };
  const { buffers, layers, scales } = group;
  if (fields.has("scales") && scales.length !== layers.length) {
    throw fields.fail("state", `${scales.length} scales for layers ${shorten(layers)}`);
  }
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
  if (size === undefined) {
    throw fields.fail("unknown_name", `'files' does not list ${shorten(file)}`);
  }
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
