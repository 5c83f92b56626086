/** A launch as references see it: its arguments by name, with what they held before and after. */

import type { Elements, LoadedProgram } from "../device/base.ts";
import { SCHEMES, type Scheme } from "../format/manifest.ts";
import type { Kernel, Plan } from "../format/plan.ts";
import { halvesOf, unpackRow, WORDS_PER_GROUP } from "./numbers.ts";
import type { Call } from "./scenario.ts";

/** One argument of a launch. */
export interface Argument {
  readonly name: string;
  readonly buffer: string;
  readonly offset: number;
  readonly dtype: string;
  /** Without load symbols, which only state has. */
  readonly shape: readonly number[];
  readonly written: boolean;
  readonly state: boolean;
}

export interface Launch {
  readonly program: LoadedProgram;
  readonly call: Call;
  readonly kernel: string;
  /** `layers.3` of a label such as `layers.3.qkv`, empty outside of layers. */
  readonly layer: string;
  readonly arguments: ReadonlyMap<string, Argument>;
  /** The launch before it in the same plan. */
  readonly previous: Launch | null;
  /** What an argument held before the launch; undefined where that is not known. */
  before(name: string): Elements | undefined;
  /** What the launch wrote there. */
  after(name: string): Elements | undefined;
  /** What a buffer held before the launch, an argument of it or not. */
  buffer(name: string): Elements | undefined;
  /** A parameter's row, unpacked, of the weight of this launch, or of one of several parts. */
  weightRow(row: number, part?: number): Promise<Float64Array>;
  /** A whole float32 parameter. */
  parameter(name: string): Promise<ArrayLike<number>>;
}

/** What the arguments of a plan's step are; names of arguments are the compiler's own, unnumbered. */
export function argumentsOf(plan: Plan, kernel: Kernel, at: number): Argument[] {
  const roles = new Map(plan.buffers.map((buffer) => [buffer.name, buffer.role]));
  return (plan.steps[at]?.bindings ?? []).flatMap((binding, i) => {
    const arg = kernel.args[i];
    if (arg === undefined) return [];
    return [
      {
        name: arg.name.replace(/^b\d+_(.*)_\d+$/, "$1"),
        buffer: binding.buffer,
        offset: binding.offset,
        dtype: arg.dtype,
        shape: arg.shape.map((extent) => (typeof extent === "number" ? extent : 0)),
        written: arg.access !== "read",
        state: roles.get(binding.buffer) === "state",
      },
    ];
  });
}

/** Where an argument's contents are remembered: scratch is shared, so its place is its name. */
export function placeOf(argument: Argument): string {
  return `${argument.buffer}@${argument.offset}`;
}

/** Reads weights back from the device, each row once. */
export function weightReader(program: LoadedProgram) {
  const kept = new Map<string, Promise<Elements>>();
  const read = (buffer: string, first: number, count: number) => {
    const key = `${buffer}:${first}:${count}`;
    const found = kept.get(key) ?? program.read(buffer, first, count);
    kept.set(key, found);
    return found;
  };
  return {
    /** A row as kernels of a scheme read it, unpacked. */
    async row(
      scheme: Scheme,
      weight: Argument,
      scale: Argument | undefined,
      row: number,
    ): Promise<Float64Array> {
      const words = await read(weight.buffer, row, 1);
      const halves = halvesOf(scheme, words.length / WORDS_PER_GROUP[scheme]);
      if (scale === undefined) return unpackRow(scheme, words, () => Number.NaN);
      // What is read at a time: a word, or where a tensor has rows one of those.
      const each = 2 * scale.shape.slice(1).reduce((words, extent) => words * extent, 1);
      const first = Math.floor((row * halves) / each);
      const count = Math.floor((row * halves + halves - 1) / each) - first + 1;
      const packed = await read(scale.buffer, first, count);
      return unpackRow(scheme, words, (index) => {
        const at = row * halves + index - first * each;
        return ((packed[at >> 1] ?? 0) >>> (16 * (at & 1))) & 0xffff;
      });
    },
    async whole(buffer: string, rows: number): Promise<ArrayLike<number>> {
      return read(buffer, 0, rows);
    },
  };
}

/**
 * How a kernel reads its weights, as its name says; undefined of a kernel without.
 *
 * @param part of a table in several.
 */
export function schemeOf(kernel: string, part = 0): Scheme | undefined {
  const named = part === 0 ? NAMED.exec(kernel) : [...kernel.matchAll(TABLES)][part];
  return SCHEMES.find((scheme) => named?.[1] === scheme);
}

/** The longest first: kernels of `q6_nl` are none of `q6`. */
const LONGEST = [...SCHEMES].sort((a, b) => b.length - a.length);
const NAMED = new RegExp(`^(?:embed|matmul|matvec|serial)_(${LONGEST.join("|")})_`);
const TABLES = new RegExp(`_(${LONGEST.join("|")})_\\d+x\\d+_from`, "g");
