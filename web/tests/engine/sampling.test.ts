/** Sampling parameters: every value is checked where it enters, and the message quotes it. */

import { expect, test } from "vitest";
import { isGreedy, isPenalized, samplingParams, without } from "../../engine/sampling.ts";
import { EdgewiseError } from "../../errors.ts";

function refusal(options: object): EdgewiseError {
  let error: unknown;
  try {
    samplingParams({}, options);
  } catch (caught) {
    error = caught;
  }
  expect(error).toMatchObject({ name: "EdgewiseError", code: "input.sampling" });
  if (!(error instanceof EdgewiseError)) throw new Error("nothing was refused");
  return error;
}

test.each<[string, unknown]>([
  ["temperature", -0.1],
  ["temperature", 100.5],
  ["temperature", Number.NaN],
  ["temperature", Number.POSITIVE_INFINITY],
  ["temperature", "hot"],
  ["temperature", true],
  ["topP", -0.1],
  ["topP", 1.01],
  ["minP", -1e-9],
  ["repetitionPenalty", 0],
  ["presencePenalty", 1e9],
  ["frequencyPenalty", -1e9],
  ["topK", -2],
  ["topK", 1.5],
  ["maxTokens", -1],
  ["maxTokens", 2 ** 31],
  ["seed", -2],
  ["seed", 2 ** 53],
  ["seed", 1n << 64n],
  ["seed", "7"],
  ["ignoreEos", 1],
  ["logitBias", [1, 2]],
  ["logitBias", { "-1": 0 }],
  ["logitBias", { one: 0 }],
  ["logitBias", { 1: Number.NaN }],
  ["logitBias", Object.fromEntries(Array.from({ length: 321 }, (_, i) => [i, 0]))],
  ["stop", 7],
  ["stop", [""]],
  ["stop", ["x".repeat(1001)]],
  ["stop", [7]],
  ["stop", new Array(65).fill("x")],
  ["stopTokenIds", 3],
  ["stopTokenIds", [-3]],
  ["stopTokenIds", Array.from({ length: 65 }, (_, i) => i)],
])("a value out of range is refused by name: %s (case %$)", (name, value) => {
  expect(refusal({ [name]: value }).message).toContain(name);
});

test.each<[string, unknown, string]>([
  ["temperature", -0.1, "-0.1"],
  ["topK", -17, "-17"],
  ["seed", -3n, "-3n"],
])("the message quotes the value: %s", (name, value, quoted) => {
  expect(refusal({ [name]: value }).message).toContain(quoted);
});

test("a long value is quoted in part", () => {
  expect(refusal({ logitBias: "x".repeat(10_000) }).message.length).toBeLessThan(200);
});

test("an unknown name lists the known ones", () => {
  const error = refusal({ temprature: 1 });
  expect(error.message).toContain('"temprature"');
  expect(error.remedy).toContain("temperature");
});

test("the bounds themselves are accepted", () => {
  const seed = (1n << 64n) - 1n;
  const params = samplingParams({}, { temperature: 100, topP: 1, topK: 0, seed });
  expect(params).toMatchObject({ temperature: 100, topP: 1, topK: 0, seed });
  expect(samplingParams({}, { stop: "😀".repeat(1000) }).stop).toHaveLength(1);
});

test("what others say for what is off or left to chance means that", () => {
  const usual = { topK: -1, seed: -1, topP: 0, maxTokens: 0 };
  const params = samplingParams({}, usual);
  expect(params).toMatchObject({ topK: 0, seed: undefined, topP: 0, maxTokens: 0 });
  expect(isGreedy(params)).toBe(true);
  expect(isGreedy(samplingParams({}, { topP: 1e-9 }))).toBe(false);
});

test("given values come before defaults and undefined is not given", () => {
  const given: object = { temperature: 0.9, topK: undefined };
  const params = samplingParams({ temperature: 0.3, topK: 5 }, given);
  expect([params.temperature, params.topK, params.maxTokens]).toEqual([0.9, 5, 256]);
});

test("a single stop string is one stop string", () => {
  expect(samplingParams({}, { stop: "ab" }).stop).toEqual(["ab"]);
  expect(samplingParams({}, { stop: ["a", "b"] }).stop).toEqual(["a", "b"]);
});

test("seeds are kept whole and biases by token", () => {
  const params = samplingParams({}, { seed: 7, logitBias: { 3: -1, 12: 2.5 } });
  expect(params.seed).toBe(7n);
  expect([...params.logitBias]).toEqual([
    [3, -1],
    [12, 2.5],
  ]);
});

test("a temperature too small to divide by is greedy", () => {
  const greedy = [0, 1e-9, 1e-3, 1].map((temperature) =>
    isGreedy(samplingParams({}, { temperature })),
  );
  expect(greedy).toEqual([true, true, false, false]);
});

test("tokens are counted only where a penalty needs it", () => {
  const options = [
    {},
    { repetitionPenalty: 1.1 },
    { presencePenalty: -0.5 },
    { frequencyPenalty: 0.5 },
  ];
  expect(options.map((given) => isPenalized(samplingParams({}, given)))).toEqual([
    false,
    true,
    true,
    true,
  ]);
});

test("what the model keeps from coming stays so beside biases of the caller", () => {
  const defaults = { logitBias: { 5: -1e4, 7: -1e4 }, stop: ["END"] };
  const params = samplingParams(defaults, { logitBias: { 7: 1, 9: 2 } });
  expect(Object.fromEntries(params.logitBias)).toEqual({ 5: -1e4, 7: 1, 9: 2 });
  expect(params.stop).toEqual(["END"]);
  const many = Object.fromEntries(Array.from({ length: 320 }, (_, i) => [i + 10, 0]));
  expect(() => samplingParams(defaults, { logitBias: many })).toThrow(
    "322; it must be at most 320",
  );
  expect(() => without(samplingParams({}, { logitBias: many }), [1])).toThrow("at most 320");
});
