import { describe, expect, it } from "vitest";
import { createColouring, type Highlight } from "../../chat/colours.ts";
import { highlight } from "../../chat/highlight.ts";
import type { Markup } from "../../chat/markup.ts";

const LINE = 'print("hello", 1)  # a line\n';

function counting(): { readonly highlight: Highlight; read: number } {
  const counter = {
    read: 0,
    highlight: (code: string, language: string) => {
      counter.read += code.length;
      return highlight(code, language);
    },
  };
  return counter;
}

const textOf = (markup: readonly Markup[]): string =>
  markup.map((part) => (typeof part === "string" ? part : textOf(part.children))).join("");
const classes = (markup: readonly Markup[]): string[] =>
  markup.flatMap((part) =>
    typeof part === "string" ? [] : [part.attributes.class ?? "", ...classes(part.children)],
  );

describe("code that grows", () => {
  it("is read a few times over at most, however many pieces it comes in", () => {
    const counter = counting();
    const colour = createColouring();
    const code = LINE.repeat(200);
    for (let end = 1; end <= code.length; end += 3) {
      colour(code.slice(0, end), "python", true, counter.highlight);
    }
    const done = colour(code, "python", false, counter.highlight);
    expect(textOf(done.colours)).toBe(code);
    expect(counter.read).toBeLessThan(7 * code.length);
  });

  it("is in colours up to a line that is whole", () => {
    const { length, colours } = createColouring()(
      LINE.repeat(9).slice(0, -5),
      "python",
      true,
      highlight,
    );
    expect(length).toBe(LINE.length * 8);
    expect(classes(colours)).toContain("hljs-string");
  });

  it("is whole in colours at its end, and read once more at most", () => {
    const counter = counting();
    const colour = createColouring();
    for (let i = 0; i < 3; i++) colour(LINE, "python", false, counter.highlight);
    expect(counter.read).toBe(LINE.length);
  });

  it("begins anew where it is another code or another language", () => {
    const colour = createColouring();
    colour("let a = 1;", "javascript", false, highlight);
    expect(textOf(colour("x = 2", "python", false, highlight).colours)).toBe("x = 2");
    const other = colour("x = 2", "no such language", false, highlight);
    expect(other).toMatchObject({ length: 0, colours: [] });
  });

  it("stays plain where it is too much", () => {
    const counter = counting();
    const { length } = createColouring()(LINE.repeat(5000), "python", false, counter.highlight);
    expect([length, counter.read]).toEqual([0, 0]);
  });
});

describe("colours", () => {
  it.each(
    "bash c cpp csharp css diff go html ini java javascript json kotlin lua makefile markdown php python r ruby rust shell sql swift typescript xml yaml ts js py sh".split(
      " ",
    ),
  )("are known of %s", (language) => {
    const code = '<a href="x">b</a> & "quoted" 1 // end\n';
    expect(textOf(highlight(code, language) ?? [])).toBe(code);
  });

  it.each(["", "constructor", "__proto__", "<img>"])("are not known of %j", (language) => {
    expect(highlight("x", language)).toBeNull();
  });
});
