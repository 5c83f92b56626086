import { describe, expect, it } from "vitest";
import { readSettings } from "../../chat/stored-settings.ts";

const TOOL = { type: "function", function: { name: "add", parameters: { type: "object" } } };
const deep: unknown = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));

describe("settings that were kept", () => {
  it("are those that a person may choose", () => {
    const settings = {
      temperature: 0,
      topP: 0.9,
      topK: -1,
      minP: 0.05,
      repetitionPenalty: 1.1,
      maxTokens: 64,
      seed: 7,
      tools: [TOOL],
      variables: { enable_thinking: false },
    };
    expect(readSettings(settings)).toEqual(settings);
    expect(readSettings({ temperature: undefined })).toEqual({});
  });

  it.each([
    [{ temperature: 6 }, "settings.temperature is 6, not a number from 0 to 5."],
    [{ temperature: "hot" }, 'settings.temperature is "hot"'],
    [{ topP: Number.NaN }, "settings.topP is null"],
    [{ maxTokens: 1.5 }, "settings.maxTokens is 1.5, not a whole number from 1 to 1000000."],
    [{ seed: 2 ** 60 }, "settings.seed is 1152921504606847000"],
    [{ tools: {} }, "settings.tools is {}, not a list of at most 256 tools"],
    [{ tools: Array(257).fill(TOOL) }, "settings.tools is "],
    [{ tools: [{ ...TOOL, note: "n".repeat(300_000) }] }, "200000 characters in all"],
    [{ tools: [deep] }, "settings.tools is "],
    [{ variables: [] }, "settings.variables is [], not an object of at most"],
    [{ specialTokens: "control" }, 'settings.specialTokens is "control", not known here.'],
    [JSON.parse('{"__proto__": {"temperature": 9}}'), "settings.__proto__ is "],
    [[], "settings is [], not an object."],
    [{ ["n".repeat(5000)]: 1 }, /^settings\.n{100} is 1, not known here\.$/],
  ])("are refused in words: %#", (settings, words) => {
    expect(() => readSettings(settings)).toThrow(words);
  });
});
