/** Masks are, token by token, those of the Python matcher. */

import { expect, test } from "vitest";
import { Matcher } from "../../grammar/matcher.ts";
import { Triggered } from "../../grammar/triggered.ts";
import { bytesOf } from "../../grammar/utf8.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { lowerGrammar } from "../../grammar/written.ts";
import { maskCases } from "./cases.ts";

const { tokens, cases } = maskCases();
const VOCABULARY = new Vocabulary(tokens.map((token) => (token === null ? null : bytes(token))));
const MOST_FORCED = 24;

function bytes(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, "hex"));
}

function hex(mask: Uint32Array): string {
  const written = new DataView(new ArrayBuffer(4 * mask.length));
  for (const [i, word] of mask.entries()) written.setUint32(4 * i, word, true);
  return Buffer.from(written.buffer).toString("hex");
}

test.each(cases.map((item) => [item.what, item] as const))("%s", (_, { text, steps, ...item }) => {
  const plain = new Matcher(lowerGrammar(text), VOCABULARY);
  const triggers = item.triggers?.map(bytesOf);
  const matcher = triggers
    ? new Triggered(plain, triggers, item.after ?? "end", VOCABULARY)
    : plain;
  let state = matcher.start;
  for (const [i, step] of steps.entries()) {
    const next = matcher.advanceBytes(state, bytes(step.bytes));
    expect(next, `step ${i}`).not.toBeNull();
    state = next ?? state;
    const here = {
      bytes: step.bytes,
      mask: hex(matcher.mask(state)),
      ends: Number(matcher.mayEnd(state)) + Number(matcher.mustEnd(state)),
      forced: Buffer.from(matcher.forced(state, MOST_FORCED)).toString("hex"),
      ...(triggers && { free: Number(matcher.free(state)) }),
    };
    expect(here, `step ${i}`).toEqual(step);
  }
});
