import { describe, expect, it } from "vitest";
import { readTools } from "../../chat/tools.ts";

describe("tools that a person writes down", () => {
  it("are a list of schemas, or one", () => {
    const tool = { type: "function", function: { name: "add", parameters: { type: "object" } } };
    expect(readTools(JSON.stringify([tool]))).toEqual({ tools: [tool] });
    expect(readTools(JSON.stringify(tool.function))).toEqual({ tools: [tool] });
  });

  it.each(["", "  \n", "[]"])("may be none: %j", (text) => {
    expect(readTools(text)).toEqual({ tools: null });
  });

  it.each([
    ["[{", "no JSON"],
    ["3", "is no tool"],
    ['{"name": "a b"}', "A tool is named"],
    ['[{"name": "a"}, {"name": "a"}]', "Two tools"],
  ])("are not used where there is something wrong with them: %j", (text, problem) => {
    expect(readTools(text)).toEqual({ problem: expect.stringContaining(problem) });
  });
});
