/** What programs must answer, read and compared as Python does. */

import { describe, expect, test } from "vitest";
import { boundOf, distance, parseProof, readProof } from "../../format/proof.ts";
import { codeOf, list, load, named } from "./cases.ts";

describe("a proof is taken or refused:", () => {
  test.each(named(load("proofs.json")))("%s", (_, item) => {
    const vocab = Number(item.get("vocab"));
    expect(codeOf(() => readProof(item.get("proof"), vocab))).toBe(item.get("code"));
  });

  test("it is JSON", () => {
    const text = new TextEncoder().encode('{"tokens": [1], "ids": [2], "logits": [[3]]}');
    expect(parseProof(text, 4)).toEqual({ tokens: [1], ids: [2], logits: [[3]] });
    expect(codeOf(() => parseProof(text.subarray(1), 4))).toBe("bundle.json");
  });
});

describe("logits are compared with what is known:", () => {
  const proof = { tokens: [0], ids: [0, 2], logits: [[1000, -1000]] };

  test.each(named(load("distances.json")))("%s", (_, item) => {
    const found = distance(proof, 0, list(item.get("logits")).map(Number));
    expect(Math.round(1000 * found)).toBe(item.get("thousandths"));
  });

  test.each([[[Number.NaN, 0, 0]], [[1]]])("%j is no answer", (logits) => {
    expect(distance(proof, 0, logits)).toBeNaN();
  });

  test("how far they may be off depends on what a program computes in", () => {
    expect(["f32", "f16", "w4a8"].map(boundOf)).toEqual([0.05, 0.1, 0.25]);
  });
});
