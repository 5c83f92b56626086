/** Pages with numbers that are not finite: the cases that Python has, too. */

import { expect, test } from "vitest";
import { findFault } from "../../engine/faults.ts";
import type { StateGroup } from "../../format/manifest.ts";
import { bytes } from "../format/cases.ts";

interface Case {
  readonly what: string;
  readonly dtype: "float16" | "float32" | "int8";
  readonly pages: number;
  readonly bad: readonly (readonly [page: number, layer: number, part: string, count: number])[];
  readonly fault: readonly [page: number, layer: number, part: string] | null;
}

const GROUP: StateGroup = {
  kind: "paged",
  layers: [0, 1, 2],
  window: null,
  pageTokens: 16,
  kvHeads: 2,
  headDim: 4,
  buffers: ["kv.0", "kv.1", "kv.2"],
  scales: ["kv_scale.0", "kv_scale.1", "kv_scale.2"],
};

/** Bits of the largest float16 and of NaN; of a float32 they are the high half. */
const [LARGEST, NAN] = [0x7bff, 0x7e00];

/** A layer's keys, then its values; of int8 the scales of both in turn. */
function words({ dtype, bad }: Case, page: number, layer: number): Uint16Array {
  const codes = dtype === "int8";
  const half = codes ? 32 : 128;
  const found = new Uint16Array(2 * half).fill(LARGEST);
  for (const [at, of, part, count] of bad) {
    if (at !== page || of !== layer) continue;
    for (let i = 0; i < count; i++) {
      const value = Number(part === "values");
      found[codes ? 2 * i + value : value * half + i] = NAN;
    }
  }
  return found;
}

function widened(halves: Uint16Array): Float32Array {
  return Float32Array.from(halves, (bits) => (bits === NAN ? Number.NaN : 3e38));
}

const CASES: readonly Case[] = JSON.parse(new TextDecoder().decode(bytes("finite.json")));

test.each(CASES)("$what", async (one) => {
  const { dtype, pages, fault } = one;
  const found = await findFault(
    GROUP,
    dtype,
    Array.from({ length: pages }, (_, i) => 100 + i),
    async (buffer, page) => {
      const layer = (dtype === "int8" ? GROUP.scales : GROUP.buffers).indexOf(buffer);
      const halves = words(one, page - 100, layer);
      if (dtype === "float32") return widened(halves);
      return dtype === "int8" ? new Uint32Array(halves.buffer) : halves;
    },
  );
  const [page, layer, part] = fault ?? [];
  expect(found).toEqual(fault && { page, layer, part });
});
