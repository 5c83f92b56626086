/** Markup that a library wrote, read strictly: elements and attributes of a vocabulary, and text. */

export interface MarkupElement {
  readonly tag: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly Markup[];
}

export type Markup = string | MarkupElement;

export interface Vocabulary {
  readonly tags: ReadonlySet<string>;
  /** What the value of an attribute has to match; any other attribute or value is left out. */
  readonly attributes: Readonly<Record<string, RegExp>>;
}

const PART = /<(\/?)([a-z][a-z0-9]*)((?:\s+[a-zA-Z:-]+="[^"<>]*")*)\s*(\/?)>|([^<]+)/y;
const ATTRIBUTE = /([a-zA-Z:-]+)="([^"]*)"/g;
const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#x27;": "'",
};

/**
 * The elements of a text.
 *
 * @throws SyntaxError for tags that are unknown or do not match, and for what is no markup.
 */
export function readMarkup(source: string, vocabulary: Vocabulary): readonly Markup[] {
  const roots: Markup[] = [];
  const open: { readonly tag: string; readonly children: Markup[] }[] = [];
  const part = new RegExp(PART);
  while (part.lastIndex < source.length) {
    const at = part.lastIndex;
    const [, closing, tag, attributes = "", empty, text] = part.exec(source) ?? wrong(source, at);
    const siblings = open.at(-1)?.children ?? roots;
    if (text !== undefined) {
      siblings.push(unescaped(text));
    } else if (closing) {
      if (open.pop()?.tag !== tag) wrong(source, at);
    } else {
      if (!tag || !vocabulary.tags.has(tag)) wrong(source, at);
      const children: Markup[] = [];
      siblings.push({ tag, attributes: known(attributes, vocabulary), children });
      if (!empty) open.push({ tag, children });
    }
  }
  if (open.length > 0) wrong(source, source.length);
  return roots;
}

function known(source: string, vocabulary: Vocabulary): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [, name = "", value = ""] of source.matchAll(ATTRIBUTE)) {
    const allowed = Object.hasOwn(vocabulary.attributes, name) ? vocabulary.attributes[name] : null;
    const text = unescaped(value);
    if (allowed?.test(text)) found[name] = text;
  }
  return found;
}

function unescaped(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity] ?? entity);
}

function wrong(source: string, at: number): never {
  throw new SyntaxError(`no known markup: ${source.slice(at, at + 40)}`);
}
