import { describe, expect, it } from "vitest";
import { indented } from "../../chat/indent.ts";

const JSONS = [
  '{"a": 1, "b": [true, null, {"c": "x, {y}: \\"z\\""}], "d": {}, "e": []}',
  '{"empty": {"a": []}}',
  "[1.50, 12345678901234567890]",
  '"text"',
];

describe("JSON", () => {
  it("has a line for each member, as JSON.stringify writes them", () => {
    for (const json of [...JSONS.slice(0, 2), JSONS[3] ?? ""]) {
      expect(indented(json)).toBe(JSON.stringify(JSON.parse(json), null, 2));
    }
  });

  it("keeps numbers and texts as they were written", () => {
    expect(indented(JSONS[2] ?? "")).toBe("[\n  1.50,\n  12345678901234567890\n]");
    const bare = (text: string) => text.replace(/\s+/g, "");
    for (const json of JSONS) expect(bare(indented(json))).toBe(bare(json));
  });

  it("may end anywhere: what there is of it stays", () => {
    for (const json of JSONS) {
      for (let size = 0; size <= json.length; size++) {
        const begun = json.slice(0, size);
        const kept = indented(begun).replace(/\s+/g, "");
        expect(kept).toBe(begun.replace(/\s+/g, ""));
      }
    }
  });
});
