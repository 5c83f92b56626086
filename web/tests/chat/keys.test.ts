import { describe, expect, it } from "vitest";
import { ends } from "../../chat/keys.ts";

const ENTER = { key: "Enter", shiftKey: false, isComposing: false, keyCode: 13 };

describe("Enter", () => {
  it("ends what is written", () => {
    expect(ends(ENTER)).toBe(true);
  });

  it.each([
    ["begins a line with Shift", { shiftKey: true }],
    ["belongs to a composition", { isComposing: true, keyCode: 229 }],
    ["ends a composition in Safari, which says so only by a code", { keyCode: 229 }],
    ["is another key", { key: "a", keyCode: 65 }],
  ])("does not where it %s", (_, pressed) => {
    expect(ends({ ...ENTER, ...pressed })).toBe(false);
  });
});
