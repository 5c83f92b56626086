/**
 * Whether what `bundle.json` says about the model is so of the tensors and the state it lists.
 *
 * Sizes that plans have in their buffers are compared with those (`program-checks.ts`). Here it is
 * the tensors: a linear by its rows, which every layout rounds up to whole panels, and by its columns,
 * a norm and a table by their shape. Of experts the model says nothing: how many there are and how
 * wide is what their tensors and their router have to agree on, in every layer alike. Tensors of other
 * names are another family's, of which nothing is known.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { GROUP, PANEL } from "./abi.ts";
import type { BundleManifest, ModelInfo, StateGroup, TensorEntry } from "./manifest.ts";

/** The weights or biases of a linear or of one part of it, or a norm's; of a layer or the model. */
const NAME = /^(?:(layers\.\d+)\.)?((?:(?:experts|shared)\.)?\w+)(?:\.\d+)?\.(weight|bias)$/;
/** What a weight takes in the schemes that there are. */
const BITS = [4, 5, 6, 8, 16, 32] as const;
/** Tables of the angles that heads turn by. */
const ROTATIONS = ["rope", "rope_local"] as const;
const ROUTER = "router";
/** What a mixture has beside its router; the last two only where there is an expert for all rows. */
const EXPERTS = ["experts.gate_up", "experts.down", "shared.gate_up", "shared.down"] as const;

/** A linear, with the rows of each of its parts and the bytes of its weights. */
interface Linear {
  readonly name: string;
  readonly what: string;
  readonly rows: number;
  readonly parts: readonly (readonly [rows: number, bytes: number])[];
}

/** Experts of a layer, the width of each, and that of the one for every row, or 0. */
type Mixture = readonly [experts: number, width: number, shared: number];
type Shape = readonly number[];
type Tensors = ReadonlyMap<string, TensorEntry>;

const up = (rows: number, step: number = GROUP) => Math.ceil(rows / step) * step;

/** Rows and columns of a linear, by the last part of its name. */
const LINEARS: ReadonlyMap<string, (model: ModelInfo) => readonly [number, number]> = new Map([
  ["embed", ({ vocab, hidden }) => [up(vocab), hidden]],
  ["lm_head", ({ vocab, hidden }) => [up(vocab), hidden]],
  ["qkv", ({ heads, kvHeads, headDim, hidden }) => [up((heads + 2 * kvHeads) * headDim), hidden]],
  ["o", ({ hidden, heads, headDim }) => [up(hidden), heads * headDim]],
  // Rows of both lie in turns, a panel each, and each is rounded up by itself.
  ["gate_up", ({ intermediate, hidden }) => [2 * up(intermediate), hidden]],
  ["down", ({ hidden, intermediate }) => [up(hidden), intermediate]],
]);

/** Shape of a vector, of norms or of sinks. */
const SHAPES: ReadonlyMap<string, (model: ModelInfo) => Shape> = new Map([
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
  ["sinks", ({ heads }) => [heads]],
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
  const mixtures = new Map<string, string>();
  for (const [name, tensors] of layouts) {
    const where = `the layout ${shorten(name)}`;
    for (const [layer, mixture] of checkLayout(model, where, tensors)) {
      const said = words(mixture);
      if (!mixtures.has(said)) mixtures.set(said, `${layer} in ${where}`);
    }
  }
  const [first, second] = mixtures;
  if (first && second) {
    throw fail(`${first[1]} has ${first[0]}, and ${second[1]} ${second[0]}`);
  }
}

function checkGroup({ kvHeads, headDim }: ModelInfo, group: StateGroup): void {
  if (kvHeads === group.kvHeads && headDim === group.headDim) return;
  const found = `${group.kvHeads}, ${group.headDim}`;
  throw fail(`kv_heads and head_dim of ${kvHeads}, ${headDim}, and a state group of ${found}`);
}

function words([experts, width, shared]: Mixture): string {
  return `${experts} experts of ${width}${shared > 0 ? ` and one of ${shared}` : ""}`;
}

/** Returns the experts of each layer that has some. */
function checkLayout(model: ModelInfo, where: string, tensors: Tensors): Map<string, Mixture> {
  const linears = new Map<string, Linear>();
  const layers = new Set<string>();
  const mixed = new Set<string>();
  for (const [name, { shape, bytes }] of tensors) {
    const [match, layer, what = "", end] = NAME.exec(name) ?? [];
    if (match === undefined) continue;
    if (layer !== undefined) layers.add(layer);
    if (end === "bias") {
      checkBias(where, name, what, tensors);
      continue;
    }
    const expected = SHAPES.get(what)?.(model);
    if (expected && !same(shape, expected)) throw differs(where, name, shape, expected);
    const expert = EXPERTS.some((part) => part === what);
    if (layer !== undefined && (expert || what === ROUTER)) mixed.add(layer);
    if (!LINEARS.has(what) && !expert) continue;
    const linear = layer === undefined ? what : `${layer}.${what}`;
    const before = linears.get(linear) ?? { rows: 0, parts: [] };
    const high = rowsOf(shape);
    const parts = [...before.parts, [high, bytes] as const];
    linears.set(linear, { name: linear, what, rows: before.rows + high, parts });
  }
  for (const linear of linears.values()) {
    const expected = LINEARS.get(linear.what)?.(model);
    if (expected) checkLinear(where, linear, ...expected);
  }
  const listed = [...layers].map((layer) => Number(layer.slice("layers.".length)));
  listed.sort((a, b) => a - b);
  if (listed.length > 0 && !counts(listed, model.layers)) {
    throw fail(`${model.layers} layers, and ${where} has ${shorten(listed)}`);
  }
  for (const rotation of ROTATIONS) {
    const table = tensors.get(rotation)?.shape;
    // Queries may have numbers of their own, behind those of the keys.
    const wanted = [model.context, table?.[1] === 4 ? 4 : 2, Math.floor(model.headDim / 2)];
    if (table && !same(table, wanted)) throw differs(where, rotation, table, wanted);
  }
  const found = new Map<string, Mixture>();
  for (const layer of mixed) {
    const router = tensors.get(`${layer}.${ROUTER}.weight`)?.shape ?? [];
    found.set(layer, checkMixture(model, where, layer, router, linears));
  }
  return found;
}

/** Of a layer's experts; linears that it lacks have no rows. */
function checkMixture(
  { hidden }: ModelInfo,
  where: string,
  layer: string,
  router: Shape,
  linears: ReadonlyMap<string, Linear>,
): Mixture {
  const linear = (what: string): Linear => {
    const name = `${layer}.${what}`;
    return linears.get(name) ?? { name, what, rows: 0, parts: [] };
  };
  const width = (of: string, experts: number): number => {
    const both = linear(`${of}.gate_up`);
    const each = both.rows / (2 * experts);
    if (each === 0 || !Number.isInteger(each) || each % GROUP > 0) {
      const panels = `a multiple of ${2 * GROUP} for each of ${experts}`;
      throw differs(where, both.name, both.rows, panels);
    }
    checkLinear(where, both, experts * 2 * each, hidden);
    checkLinear(where, linear(`${of}.down`), experts * up(hidden), each);
    return each;
  };

  const down = linear("experts.down");
  const experts = down.rows / up(hidden);
  if (experts === 0 || !Number.isInteger(experts)) {
    throw differs(where, down.name, down.rows, `a multiple of ${up(hidden)}`);
  }
  const gated = EXPERTS.some((what) => what.startsWith("shared") && linear(what).rows > 0);
  const mixture = [experts, width("experts", experts), gated ? width("shared", 1) : 0] as const;
  const wanted = [hidden, up(experts + Number(gated), PANEL)];
  const name = `${layer}.${ROUTER}.weight`;
  if (!same(router, wanted)) throw differs(where, name, router, wanted);
  return mixture;
}

function checkLinear(where: string, linear: Linear, rows: number, columns: number): void {
  const { name, parts } = linear;
  if (linear.rows !== rows) throw differs(where, name, linear.rows, rows);
  // Each part has a scheme of its own.
  for (const [high, bytes] of parts) {
    const weights = high * up(columns);
    if (BITS.some((bits) => (weights / 8) * bits === bytes)) continue;
    throw differs(where, name, `${bytes} bytes`, `${high} rows of ${columns}`);
  }
}

/** Compare biases with the rows, or a router's columns, that they are for. */
function checkBias(where: string, name: string, what: string, tensors: Tensors): void {
  const found = tensors.get(name)?.shape;
  const weight = tensors.get(`${name.slice(0, -".bias".length)}.weight`)?.shape;
  if (!found || !weight) return;
  const rows = what === ROUTER ? weight.slice(-1) : [rowsOf(weight)];
  if (!same(found, rows)) throw differs(where, name, found, rows);
}

/** Rows of a part of a linear: of panels, in the layout that has those, 16 each. */
function rowsOf(shape: Shape): number {
  return (shape[0] ?? 0) * (shape.length > 2 ? PANEL : 1);
}

/** Whether these are 0, 1, 2 … up to a number of them. */
function counts(found: readonly number[], length: number): boolean {
  return found.length === length && found.every((item, i) => item === i);
}

function same(one: Shape, other: Shape): boolean {
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
