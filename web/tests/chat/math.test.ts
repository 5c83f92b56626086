import { describe, expect, it } from "vitest";
import type { Markup } from "../../chat/markup.ts";
import { mathml } from "../../chat/math.ts";

const elements = (markup: readonly Markup[]): Exclude<Markup, string>[] =>
  markup.flatMap((part) => (typeof part === "string" ? [] : [part, ...elements(part.children)]));
const tags = (tex: string) => elements(mathml(tex, false) ?? []).map(({ tag }) => tag);

describe("a formula", () => {
  it.each([
    ["\\frac{1}{2}", "mfrac"],
    ["\\sqrt{x}", "msqrt"],
    ["x_1^2", "msubsup"],
    ["\\sum_{i=1}^n i", "mo"],
    ["\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}", "mtable"],
    ["\\begin{aligned} a &= b \\\\ &= c \\end{aligned}", "mtable"],
    ["\\begin{cases} 1 & x > 0 \\\\ 0 & x \\le 0 \\end{cases}", "mtable"],
    ["\\text{if } x \\in \\mathbb{R}", "mtext"],
    ["\\boxed{42}", "mrow"],
    ["\\left( \\int_0^\\infty e^{-x}\\,dx \\right)", "mspace"],
    ["\\color{red} x", "mi"],
    ["\\hat{\\mathbf{x}} \\cdot \\vec{y}", "mover"],
  ])("%s is MathML", (tex, tag) => {
    expect(tags(tex)).toEqual(expect.arrayContaining(["math", tag]));
  });

  it("knows whether it stands for itself", () => {
    const [shown] = elements(mathml("x", true) ?? []);
    expect(shown?.attributes.display).toBe("block");
  });

  it.each([
    ["is no formula", "\\frac{1}"],
    ["is not known", "\\nosuchcommand"],
    ["has braces without end", "{".repeat(100_000)],
    ["never ends", "\\def\\a{\\a\\a}\\a"],
    [
      "doubles",
      `\\def\\a{xx}${Array.from("bcdefghijklmnop", (name, i) => `\\def\\${name}{\\${"abcdefghijklmnop"[i]}\\${"abcdefghijklmnop"[i]}}`).join("")}\\p`,
    ],
  ])("is left as it was written where it %s", (_, tex) => {
    expect(mathml(tex, false)).toBeNull();
  });

  it.each([
    "\\href{javascript:alert(1)}{x}",
    "\\href{https://example.com/}{x}",
    "\\url{javascript:alert(1)}",
    "\\includegraphics[height=1em]{https://example.com/x.png}",
    "\\class{message}{x}",
    "\\id{app}{x}",
    "\\style{position:fixed;inset:0}{x}",
    "\\data{testid=send}{x}",
    "\\htmlData{testid=send}{x}",
    "\\text{<img src=x onerror=alert(1)>}",
    '\\color{"onload="alert(1)}x',
    "\\color{url(https://example.com)}x",
    "\\rule{1000em}{1000em}",
  ])("does nothing but look: %s", (tex) => {
    for (const { tag, attributes } of elements(mathml(tex, true) ?? [])) {
      expect(tag).toMatch(/^m[a-z]+$/);
      for (const [name, value] of Object.entries(attributes)) {
        expect(name).not.toMatch(/^(?:on.*|href|src|id|data-.*|xlink.*)$/);
        expect(value).not.toMatch(/url|position|javascript|[<>"]/);
        expect(Number.parseFloat(value) || 0).toBeLessThanOrEqual(40);
      }
    }
  });
});
