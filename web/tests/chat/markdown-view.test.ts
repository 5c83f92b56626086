/** What a model writes, as the page shows it: drawn, and harmless. */

import { h } from "preact";
import { renderToString } from "preact-render-to-string";
import { describe, expect, it } from "vitest";
import { MarkdownView } from "../../chat/components/markdown-view.tsx";

const drawn = (text: string) => renderToString(h(MarkdownView, { text })).replaceAll("\n", "");

describe("markdown", () => {
  it.each([
    ["a list that goes on", "3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
    ["a list from one", "1. a", "<ol><li>a</li></ol>"],
    ["a loose list", "- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
    [
      "tasks",
      "- [x] a\n- [ ] b",
      '<ul><li class="task"><span role="img" aria-label="Done:" data-checked="true" class="tick"></span>a</li>' +
        '<li class="task"><span role="img" aria-label="To do:" data-checked="false" class="tick"></span>b</li></ul>',
    ],
    [
      "marks",
      "*a* **b** ~~c~~ `d<`",
      "<p><em>a</em> <strong>b</strong> <del>c</del> <code>d&lt;</code></p>",
    ],
    ["lines", "a\nb<br>c", "<p>a<br/>b<br/>c</p>"],
    [
      "names of characters",
      "&lt;b&gt; &copy; &#8364; &nosuch; &#0;",
      "<p>&lt;b> © € &amp;nosuch; \ufffd</p>",
    ],
    ["a heading", "### a", '<h2 data-depth="3">a</h2>'],
    ["a heading in a list", "- # a", "<ul><li><p><strong>a</strong></p></li></ul>"],
    ["a rule", "a\n\n---", '<p>a</p></div><div dir="auto"><hr/>'],
    ["a quote", "> a\n> b", "<blockquote><p>a<br/>b</p></blockquote>"],
    [
      "a link",
      "[a](https://example.com/?b=1&amp;c=2)",
      '<p><a href="https://example.com/?b=1&amp;c=2" target="_blank" rel="noopener noreferrer nofollow">a</a></p>',
    ],
    ["a picture", "![a <b>](https://example.com/x.png)", "<p>a &lt;b></p>"],
    ["a formula", "so $x<y$", '<p>so <code class="tex">$x&lt;y$</code></p>'],
  ])("has %s", (_, text, html) => {
    expect(drawn(text)).toBe(`<div class="markdown"><div dir="auto">${html}</div></div>`);
  });

  it("has tables that are aligned, and scrolled by keys", () => {
    const html = drawn("| a | b |\n|:--|--:|\n| 1 | 2 |");
    expect(html).toContain('<div tabindex="0" role="group" aria-label="Table" class="scroll">');
    expect(html).toContain('<th align="left">a</th><th align="right">b</th>');
    expect(html).toContain('<td align="left">1</td><td align="right">2</td>');
  });

  it("has code that is named, and scrolled by keys", () => {
    const html = drawn("```python\nprint(1)\n```");
    expect(html).toContain("<figcaption><span>python</span>");
    expect(html).toContain(
      '<pre tabindex="0" role="group" aria-label="Code in python"><code>print(1)</code></pre>',
    );
  });
});

const HARMLESS =
  /^<\/?(?:a|blockquote|br|button|code|del|div|em|figcaption|figure|h[2-6]|hr|li|ol|p|pre|span|strong|table|tbody|td|th|thead|tr|ul)(?: (?:align|aria-label|class|data-checked|data-depth|data-testid|dir|href|rel|role|start|tabindex|target|type)="[^"]*")*\/?>$/;

describe("what means harm", () => {
  it.each([
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<form action=https://example.com><input name=a><button>b</button></form>",
    "<a href='javascript:alert(1)'>a</a>",
    "<style>body{display:none}</style>",
    "<base href=https://example.com>",
    "<details open ontoggle=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](java\tscript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](vbscript:x) [b](file:///etc/passwd) [c](//example.com) [d](/api/bundles)",
    "[a]: javascript:alert(1)\n\n[a]",
    "<javascript:alert(1)>",
    "![a](https://example.com/x.png) ![b](javascript:alert(1))",
    "`<img src=x onerror=alert(1)>`",
    "```<img src=x onerror=alert(1)>\n</code></pre><script>alert(1)</script>\n```",
    '```"onmouseover="alert(1)\nx\n```',
    "| <img src=x> | b |\n|---|---|\n| <script>alert(1)</script> | [a](javascript:x) |",
    "- [x] <img src=x onerror=alert(1)>\n- [ ] [a](javascript:x)",
    "999999999. <script>alert(1)</script>",
    "$<img src=x onerror=alert(1)>$ $$\\href{javascript:alert(1)}{x}$$",
    "# <script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    '"><script>alert(1)</script>',
    "\u202e<script>\u0000alert(1)</script>",
    `${"> ".repeat(500)}<script>alert(1)</script>`,
    `${"- ".repeat(500)}<script>alert(1)</script>`,
    `${"**a *b ".repeat(200)}<script>alert(1)</script>`,
    `${"[".repeat(2000)}a](javascript:x)`,
  ])("is text: %j", (text) => {
    const html = drawn(text);
    for (const [tag] of html.matchAll(/<[^>]*>/g)) expect(tag).toMatch(HARMLESS);
    for (const [, url] of html.matchAll(/href="([^"]*)"/g))
      expect(url).toMatch(/^(?:https?:|mailto:)/);
  });

  it("is shown", () => {
    expect(drawn("a <script>alert(1)</script>")).toContain("&lt;script>alert(1)&lt;/script>");
  });
});
