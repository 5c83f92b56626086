import { describe, expect, it } from "vitest";
import { type Block, blocks, createReader } from "../../chat/blocks.ts";
import { Random } from "../engine/random.ts";
import { FULL } from "../suite.ts";

/** What answers are made of; what comes later changes how some of it is read. */
const PARTS = [
  "A word and another",
  "\n",
  "\n\n",
  "# Title",
  "- item",
  "\n- item",
  "\n  more",
  "\n\n1. one",
  "\n2. two",
  "\n\n- [x] done",
  "\n\n```python\nprint(1)",
  "\n```\n",
  "\n    indented",
  "\n| a | b |\n|---|--:|\n| 1 | 2 |",
  "\n> quoted",
  "\n---\n",
  "\n===",
  "\n\n$$\nx + y\n$$\n",
  "\n\\[ a\n- b \\]\n",
  " $x$ and \\(y\\) ",
  "**bold",
  "** `code` ",
  "<div>\nhtml\n</div>",
  "\r\n",
  "[link](https://example.com)",
];

const SEEDS = FULL ? 200 : 12;

const essence = (read: readonly Block[]) => read.map(({ key, level }) => [key, level]);

describe("a text that grows", () => {
  it.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
    "is read as it is read whole, wherever it is cut (%i)",
    (seed) => {
      const random = new Random(seed);
      const reader = createReader();
      let text = "";
      for (let i = 0; i < 25; i++) {
        const part = random.pick(PARTS);
        for (const piece of part.match(/[\s\S]{1,4}/g) ?? []) {
          text += piece;
          expect([text, essence(reader.read(text))]).toEqual([text, essence(blocks(text))]);
        }
      }
    },
  );

  it("is read to the same end where links are defined below what uses them", () => {
    const text =
      "See [one] and [two].\n\nMore.\n\nAnd more.\n\n[one]: https://example.com/1\n\nEnd.";
    const reader = createReader();
    for (let end = 1; end <= text.length; end++) {
      const begun = text.slice(0, end);
      expect([begun, essence(reader.read(begun))]).toEqual([begun, essence(blocks(begun))]);
    }
  });

  it("is read a few times over, not once for each of its pieces", () => {
    const text = "A paragraph of some words.\n\n".repeat(150);
    const reader = createReader();
    for (let end = 4; end <= text.length; end += 4) reader.read(text.slice(0, end));
    expect(reader.characters).toBeLessThan(20 * text.length);
  });

  it("may be followed by another one", () => {
    const reader = createReader();
    reader.read("One.\n\nTwo.\n\nThree.\n\nFour.");
    expect(essence(reader.read("Else."))).toEqual(essence(blocks("Else.")));
  });
});

describe("blocks", () => {
  const levels = (text: string) =>
    blocks(text)
      .filter(({ token }) => token.type === "heading")
      .map(({ level }) => level);

  it("of headings are below the conversation's, and each one below the one that it is under", () => {
    expect(levels("### a\n\n##### b\n\n### c\n\n# d\n\n###### e\n\n###### f")).toEqual([
      2, 3, 2, 2, 3, 3,
    ]);
  });

  it("of what cannot be read are one, as it was written", () => {
    const deep = `${">".repeat(100_000)} deep`;
    expect(blocks(deep).map(({ token }) => token.raw)).toEqual([deep]);
  });

  it.each([
    ["$x^2$", ["x^2"]],
    ["so $x$, and \\(y\\): $z$.", ["x", "y", "z"]],
    ["$$x$$", ["x"]],
    ["\\[x\\]", ["x"]],
    ["$$\na\n- b\n= c\n$$", ["a\n- b\n= c"]],
    ["text:\n$$\nx\n$$\nmore", ["x"]],
    ["- item\n\n  \\[ x \\]", ["x"]],
    ["| $a$ | b |\n|---|---|\n| c | \\(d\\) |", ["a", "d"]],
    ["$5 and $6", []],
    ["$5/$6, US$7-$8", []],
    ["$HOME/$USER", []],
    ["$ x $", []],
    ["a $x\n\ny$ b", []],
    ["`$x$`", []],
    ["\\$x\\$", []],
    ["$$ never closed", []],
    ["\\( never closed", []],
    ["```\n$x$\n```", []],
  ])("of %j have the formulas %j", (text, tex) => {
    expect(formulasIn(blocks(text).map(({ token }) => token))).toEqual(tex);
  });
});

/** Formulas among tokens and whatever they hold. */
function formulasIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(formulasIn);
  if (typeof value !== "object" || value === null) return [];
  if ("tex" in value) return [String(value.tex)];
  return Object.values(value).flatMap(formulasIn);
}
