/** What tabs and their host say to each other: docs/tabs.md is read as Python's tests read it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { lentOptions } from "../../client/lend-options.ts";
import { readFromHost } from "../../client/lend-protocol.ts";
import type { Completion } from "../../client/types.ts";
import { choiceOf, deltasOf } from "../../client/wire.ts";

const PAGE = readFileSync(join(import.meta.dirname, "../../../docs/tabs.md"), "utf8");
const EXAMPLES: Record<string, unknown>[] = [...PAGE.matchAll(/^```json\n(.*?)^```/gms)].map(
  ([, text]) => JSON.parse(text ?? ""),
);
const example = (type: string) => {
  const found = EXAMPLES.find((one) => one.type === type);
  if (!found) throw new Error(`the page has no ${type}`);
  return found;
};
const read = (message: unknown) => readFromHost(JSON.stringify(message));

describe("a message of the host", () => {
  it("is read as the page has it", () => {
    expect(read(example("lent"))).toEqual({ type: "lent", beatS: 5 });
    expect(read(example("run"))).toEqual({
      ...example("run"),
      prompt: null,
      tools: null,
      variables: null,
    });
    expect(read(example("halt"))).toEqual({ type: "halt", run: "r1" });
    expect(read(example("beat"))).toEqual({ type: "beat", beat: 17 });
    const error = { code: "tab.bundle", message: "Another.", remedy: "" };
    expect(read({ type: "error", ...error })).toEqual({ type: "error", error });
  });

  it.each([[{ prompt: [1, 2], messages: undefined }], [{ prompt: "Once", messages: undefined }]])(
    "may ask for a prompt: %j",
    (changes) => {
      expect(read({ ...example("run"), ...changes })).toMatchObject({
        prompt: changes.prompt,
        messages: null,
      });
    },
  );

  it.each<[string, unknown]>([
    ["no JSON", "{"],
    ["no text", new ArrayBuffer(4)],
    ["a list", "[]"],
    ["another type", '{"type": "shout"}'],
    ["a type of objects", '{"type": "constructor"}'],
    ["a run without options", '{"type": "run", "run": "r1", "prompt": "a"}'],
    ["a run of another name", JSON.stringify({ ...example("run"), run: "../1" })],
    ["messages that are none", JSON.stringify({ ...example("run"), messages: ["a"] })],
    ["tokens that are none", JSON.stringify({ ...example("run"), prompt: [1.5] })],
    ["options that are a list", JSON.stringify({ ...example("run"), options: [] })],
    ["a field more", JSON.stringify({ ...example("halt"), loud: true })],
    ["no time between beats", JSON.stringify({ ...example("lent"), beat_s: 0 })],
    ["a time that is none", JSON.stringify({ ...example("lent"), beat_s: "5" })],
    ["a time too long", JSON.stringify({ ...example("lent"), beat_s: 1e9 })],
    ["a beat that is none", '{"type": "beat", "beat": -1}'],
    ["an error without words", '{"type": "error", "code": "a"}'],
    ["nesting", `{"type": "run", "run": "r1", "options": ${"[".repeat(99)}${"]".repeat(99)}}`],
  ])("is refused where it is %s", (_, data) => {
    expect(() => readFromHost(data)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^tab\./) }),
    );
  });
});

describe("options", () => {
  it("have our names, and the seed all its bits", () => {
    const seed = (2n ** 64n - 1n).toString();
    expect(lentOptions({ max_tokens: 5, top_p: 0.5, stop: ["a"], seed })).toEqual({
      maxTokens: 5,
      topP: 0.5,
      stop: ["a"],
      seed: 2n ** 64n - 1n,
    });
  });

  it.each(["logprobs", "n", "cache_salt", "toString", "__proto__"])("are refused: %s", (name) => {
    expect(() => lentOptions({ [name]: 1, ["__proto__"]: 1 })).toThrow(
      expect.objectContaining({ code: "unsupported.tab" }),
    );
  });
});

describe("an answer", () => {
  it("is written as the page has it", () => {
    const completion: Completion = {
      text: " there was",
      reasoning: "",
      toolCalls: [],
      written: " there was",
      tokenIds: [311, 402, 3],
      finishReason: "stop",
      usage: { promptTokens: 13, completionTokens: 3, cachedTokens: 0, totalTokens: 16 },
      timings: {
        ttftMs: 40,
        prefillMs: 30,
        decodeMs: 210,
        prefillTokensPerSecond: 433.3,
        decodeTokensPerSecond: 104.8,
        decodeTokens: 2,
      },
      seed: "7",
      contextFull: false,
      droppedTurns: 0,
    };
    expect({ type: "ended", run: "r1", choice: choiceOf(completion) }).toEqual(example("ended"));
    const called = { id: "a", name: "add", text: '{"x": 1}', arguments: { x: 1 } };
    expect(choiceOf({ ...completion, toolCalls: [called] }).calls).toEqual([
      { id: "a", name: "add", arguments: '{"x": 1}' },
    ]);
  });

  it("comes in deltas, neighbours joined", () => {
    expect(
      deltasOf([
        { kind: "content", text: "a" },
        { kind: "content", text: "b" },
        { kind: "call begins", index: 0, id: "i", name: "add" },
        { kind: "arguments", index: 0, text: "{" },
        { kind: "arguments", index: 0, text: "}" },
        { kind: "call ends", index: 0 },
        { kind: "no call", index: null, text: "<", why: "too long" },
      ]),
    ).toEqual([
      { type: "content", text: "ab" },
      { type: "call_begins", index: 0, id: "i", name: "add" },
      { type: "arguments", index: 0, text: "{}" },
      { type: "call_ends", index: 0 },
      { type: "no_call", index: null, text: "<", why: "too long" },
    ]);
  });
});
