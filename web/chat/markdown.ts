/** Markdown of a model as HTML that can do nothing but be read. */

import DOMPurify from "dompurify";
import { Marked } from "marked";

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

/** HTML without scripts, styles, pictures, forms or links to anything but the web. */
export function toHtml(markdown: string): string {
  return purifier.sanitize(marked.parse(markdown, { async: false }), {
    ALLOWED_TAGS: [
      ..."a b blockquote br button code del em figcaption figure h1 h2 h3 h4 h5 h6".split(" "),
      ..."hr i li ol p pre s span strong table tbody td th thead tr ul".split(" "),
    ],
    ALLOWED_ATTR: ["align", "class", "data-testid", "href", "rel", "start", "target", "type"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  });
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
