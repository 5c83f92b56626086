/**
 * Whether what `bundle.json` says about the model is so of the tensors and the state it lists.
 *
 * Sizes that plans have in their buffers are compared with those (`program-checks.ts`). Here it is
 * the tensors: a linear by its rows, which every layout rounds up to whole panels, a norm and a table
 * by their shape. Tensors of other names are another family's, of which nothing is known.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { GROUP, PANEL } from "./abi.ts";
import type { BundleManifest, ModelInfo, StateGroup, TensorEntry } from "./manifest.ts";

/** A linear's weights or one part of them, or a norm's; of a layer or of the model. */
const NAME = /^(?:layers\.(\d+)\.)?(\w+)(?:\.\d+)?\.weight$/;
/** Tables of the angles that heads turn by. */
const ROTATIONS = ["rope", "rope_local"] as const;

const up = (rows: number) => Math.ceil(rows / GROUP) * GROUP;

/** Rows of a linear, by the last part of its name. */
const ROWS: ReadonlyMap<string, (model: ModelInfo) => number> = new Map([
  ["embed", ({ vocab }) => up(vocab)],
  ["lm_head", ({ vocab }) => up(vocab)],
  ["qkv", ({ heads, kvHeads, headDim }) => up((heads + 2 * kvHeads) * headDim)],
  ["o", ({ hidden }) => up(hidden)],
  // Rows of both lie in turns, a panel each, and each is rounded up by itself.
  ["gate_up", ({ intermediate }) => 2 * up(intermediate)],
  ["down", ({ hidden }) => up(hidden)],
]);

/** Shape of a norm. */
const SHAPES: ReadonlyMap<string, (model: ModelInfo) => readonly number[]> = new Map([
  ["norm", ({ hidden }) => [hidden]],
  ["attn_norm", ({ hidden }) => [hidden]],
  ["mlp_norm", ({ hidden }) => [hidden]],
  ["q_norm", ({ headDim }) => [headDim]],
  ["k_norm", ({ headDim }) => [headDim]],
  ["qk_norm", ({ headDim }) => [2, headDim]],
  ["q_row_norm", ({ heads, headDim }) => [heads * headDim]],
  ["k_row_norm", ({ kvHeads, headDim }) => [kvHeads * headDim]],
  ["attn_post_norm", ({ hidden }) => [hidden]],
  ["mlp_post_norm", ({ hidden }) => [hidden]],
]);

/**
 * Compare the model with every layout and with the state groups.
 *
 * @throws EdgewiseError `bundle.model` naming what disagrees.
 */
export function checkFacts({ model, stateGroups, layouts }: BundleManifest): void {
  const kept = stateGroups.flatMap((group) => group.layers).sort((a, b) => a - b);
  if (stateGroups.length > 0 && !counts(kept, model.layers)) {
    throw fail(`${model.layers} layers, and state groups of the layers ${shorten(kept)}`);
  }
  for (const group of stateGroups) checkGroup(model, group);
  for (const [name, tensors] of layouts) checkLayout(model, `the layout ${shorten(name)}`, tensors);
}

function checkGroup({ kvHeads, headDim }: ModelInfo, group: StateGroup): void {
  if (kvHeads === group.kvHeads && headDim === group.headDim) return;
  const found = `${group.kvHeads}, ${group.headDim}`;
  throw fail(`kv_heads and head_dim of ${kvHeads}, ${headDim}, and a state group of ${found}`);
}

function checkLayout(
  model: ModelInfo,
  where: string,
  tensors: ReadonlyMap<string, TensorEntry>,
): void {
  const rows = new Map<string, { what: string; found: number }>();
  const layers = new Set<number>();
  for (const [name, { shape }] of tensors) {
    const [, layer, what = ""] = NAME.exec(name) ?? [];
    if (layer !== undefined) layers.add(Number(layer));
    const expected = SHAPES.get(what)?.(model);
    if (expected && !same(shape, expected)) throw differs(where, name, shape, expected);
    if (!ROWS.has(what)) continue;
    const linear = layer === undefined ? what : `layers.${layer}.${what}`;
    const high = shape.length > 2 ? PANEL : 1;
    const found = (rows.get(linear)?.found ?? 0) + (shape[0] ?? 0) * high;
    rows.set(linear, { what, found });
  }
  for (const [linear, { what, found }] of rows) {
    const expected = ROWS.get(what)?.(model);
    if (found !== expected) throw differs(where, linear, found, expected);
  }
  const listed = [...layers].sort((a, b) => a - b);
  if (listed.length > 0 && !counts(listed, model.layers)) {
    throw fail(`${model.layers} layers, and ${where} has ${shorten(listed)}`);
  }
  for (const rotation of ROTATIONS) {
    const table = tensors.get(rotation)?.shape;
    // Queries may have numbers of their own, behind those of the keys.
    const wanted = [model.context, table?.[1] === 4 ? 4 : 2, Math.floor(model.headDim / 2)];
    if (table && !same(table, wanted)) throw differs(where, rotation, table, wanted);
  }
}

/** Whether these are 0, 1, 2 … up to a number of them. */
function counts(found: readonly number[], length: number): boolean {
  return found.length === length && found.every((item, i) => item === i);
}

function same(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((extent, i) => extent === other[i]);
}

function differs(where: string, name: string, found: unknown, expected: unknown): EdgewiseError {
  const [is, said] = [shorten(found), shorten(expected)];
  return fail(`${shorten(name)} of ${said}, and in ${where} it is of ${is}`);
}

function fail(message: string): EdgewiseError {
  return new EdgewiseError(
    "bundle.model",
    `bundle.json, model: it says ${message}.`,
    "Copy or compile the bundle again.",
  );
}
