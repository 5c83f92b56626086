import { describe, expect, it } from "vitest";
import { readMarkup, type Vocabulary } from "../../chat/markup.ts";

const WORDS: Vocabulary = {
  tags: new Set(["span", "math", "mspace"]),
  attributes: { class: /^[\w -]*$/, width: /^[\d.]+em$/ },
};
const read = (source: string) => readMarkup(source, WORDS);

describe("markup", () => {
  it("is read as elements and text", () => {
    expect(read('a &lt;b&gt; <span class="x y"><span>c</span>&amp;amp;</span><mspace/>')).toEqual([
      "a <b> ",
      {
        tag: "span",
        attributes: { class: "x y" },
        children: [{ tag: "span", attributes: {}, children: ["c"] }, "&amp;"],
      },
      { tag: "mspace", attributes: {}, children: [] },
    ]);
  });

  it("keeps known attributes with values that they may have", () => {
    const source = '<span class="a" onclick="x()" width="2em" style="color:red"></span>';
    expect(read(source)).toEqual([
      { tag: "span", attributes: { class: "a", width: "2em" }, children: [] },
    ]);
    expect(read('<span class="a&quot;b" width="9999px"></span>')).toEqual([
      { tag: "span", attributes: {}, children: [] },
    ]);
    expect(read('<span constructor="a">b</span>')).toEqual([
      { tag: "span", attributes: {}, children: ["b"] },
    ]);
  });

  it.each([
    ["an unknown element", "<img>"],
    ["a script", "<script>alert(1)</script>"],
    ["an end without a beginning", "a</span>"],
    ["a beginning without an end", "<span>a"],
    ["crossed elements", "<span><math></span></math>"],
    ["an attribute without quotes", "<span class=a>b</span>"],
    ["a lone bracket", "a < b"],
    ["a comment", "<!-- a -->"],
    ["an attribute that holds a tag", '<span class="<img>">a</span>'],
  ])("is refused with %s", (_, source) => {
    expect(() => read(source)).toThrow(SyntaxError);
  });
});
