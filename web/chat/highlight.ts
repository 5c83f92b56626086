/** Code in colours, by highlight.js. Large: loaded when there is code in a language that is named. */

import hljs from "highlight.js/lib/common";
import type { Highlight } from "./colours.ts";
import { readMarkup, type Vocabulary } from "./markup.ts";

const COLOURS: Vocabulary = {
  tags: new Set(["span"]),
  attributes: { class: /^[\w -]*$/ },
};

export const highlight: Highlight = (code, language) => {
  if (!hljs.getLanguage(language)) return null;
  try {
    return readMarkup(hljs.highlight(code, { language, ignoreIllegals: true }).value, COLOURS);
  } catch {
    return null;
  }
};
