/** Markdown of a model as HTML that can do nothing but be read. */

import DOMPurify from "dompurify";
import { Marked } from "marked";

/** A paragraph, list, table or the like; `key` tells whether it is still the same. */
export interface Block {
  readonly key: string;
  html(): string;
}

const COPY = '<button type="button" class="copy" data-testid="copy-code">Copy</button>';

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    code({ text, lang }) {
      const language = (lang ?? "").match(/^[\w+#.-]{1,20}/)?.[0] ?? "";
      return (
        `<figure class="code"><figcaption><span>${language}</span>${COPY}</figcaption>` +
        `<pre><code>${escapeHtml(text)}</code></pre></figure>`
      );
    },
    // A picture would be fetched from wherever the model likes: its text stands for it.
    image: ({ text }) => escapeHtml(text),
    html: ({ text }) => escapeHtml(text),
  },
});

const purifier = DOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** The blocks of a text. While it grows only the last ones change, and only those are made HTML of. */
export function blocks(markdown: string): readonly Block[] {
  try {
    const tokens = marked.lexer(markdown);
    const links = Object.keys(tokens.links).length;
    return tokens
      .filter(({ type }) => type !== "space" && type !== "def")
      .map((token) => ({
        key: `${links} ${token.raw}`,
        html: () => rendered(() => marked.parser([token]), token.raw),
      }));
  } catch {
    return [{ key: markdown, html: () => plain(markdown) }];
  }
}

/** The text without marks, as it is read aloud. */
export function spoken(markdown: string): string {
  const html = blocks(markdown).map((block) => block.html());
  const body = new DOMParser().parseFromString(html.join("\n"), "text/html").body;
  for (const caption of body.querySelectorAll("figcaption")) caption.remove();
  return body.textContent ?? "";
}

/** Without scripts, styles, pictures, forms or links to anything but the web. */
function rendered(html: () => string, source: string): string {
  try {
    return purifier.sanitize(html(), {
      ALLOWED_TAGS: [
        ..."a b blockquote br button code del em figcaption figure h1 h2 h3 h4 h5 h6".split(" "),
        ..."hr i li ol p pre s span strong table tbody td th thead tr ul".split(" "),
      ],
      ALLOWED_ATTR: ["align", "class", "data-testid", "href", "rel", "start", "target", "type"],
      ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    });
  } catch {
    return plain(source);
  }
}

/** What no HTML can be made of, such as quotes in quotes without end. */
function plain(text: string): string {
  return `<pre><code>${escapeHtml(text)}</code></pre>`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
