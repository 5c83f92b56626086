/** Text as Python has it: its white space, its lines, its letters, and how it is quoted. */

/** Of a regular expression, the characters that are white space to Python. */
export const SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const LEADING_SPACE = new RegExp(`^[${SPACE}]+`);
const TRAILING_SPACE = new RegExp(`(?<![${SPACE}])[${SPACE}]+$`);

export type Strip = (text: string, characters: string | undefined) => string;

export const strip: Strip = (text, characters) =>
  stripEnd(stripStart(text, characters), characters);

/** By the names of Python's methods. */
export const STRIPS: Readonly<Record<"strip" | "lstrip" | "rstrip", Strip>> = {
  strip,
  lstrip: stripStart,
  rstrip: stripEnd,
};

function stripStart(text: string, characters: string | undefined): string {
  if (characters === undefined) return text.replace(LEADING_SPACE, "");
  const set = new Set(characters);
  let start = 0;
  for (const character of text) {
    if (!set.has(character)) break;
    start += character.length;
  }
  return text.slice(start);
}

function stripEnd(text: string, characters: string | undefined): string {
  if (characters === undefined) return text.replace(TRAILING_SPACE, "");
  const set = new Set(characters);
  let end = text.length;
  while (end > 0) {
    const pair = end > 1 && set.has(text.slice(end - 2, end));
    if (!pair && !set.has(text.slice(end - 1, end))) break;
    end -= pair ? 2 : 1;
  }
  return text.slice(0, end);
}

const LINE_ENDS = "\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029";
const LINE_END = new RegExp(`\\r\\n|[${LINE_ENDS}]`);

const ANY_LINE_END = new RegExp(`[${LINE_ENDS}]`, "g");

/** How many characters of a text end lines. */
export function lineEnds(text: string): number {
  let count = 0;
  ANY_LINE_END.lastIndex = 0;
  while (ANY_LINE_END.test(text)) count += 1;
  return count;
}

export function lines(text: string): string[] {
  const found = text.split(LINE_END);
  return found.at(-1) === "" ? found.slice(0, -1) : found;
}

const BLANK = new RegExp(`[${SPACE}]+`);
const ONLY_SPACE = new RegExp(`^[${SPACE}]+$`);

export function isSpace(text: string): boolean {
  return ONLY_SPACE.test(text);
}

/** `text.split(between, most)`; null for white space, a negative number for no limit. */
export function split(text: string, between: string | null, most: number): string[] {
  if (between !== null) return splitAt(text, between, most);
  const words: string[] = [];
  let rest = stripStart(text, undefined);
  while (rest !== "" && (most < 0 || words.length < most)) {
    const space = BLANK.exec(rest);
    if (!space) break;
    words.push(rest.slice(0, space.index));
    rest = rest.slice(space.index + space[0].length);
  }
  return rest === "" ? words : [...words, rest];
}

function splitAt(text: string, between: string, most: number): string[] {
  const pieces = text.split(between);
  if (most < 0 || pieces.length <= most + 1) return pieces;
  return [...pieces.slice(0, most), pieces.slice(most).join(between)];
}

/** `text.rsplit(between, most)`. */
export function splitLast(text: string, between: string | null, most: number): string[] {
  if (most < 0) return split(text, between, most);
  const found: string[] = [];
  if (between === null) {
    let rest = stripEnd(text, undefined);
    while (rest !== "" && found.length < most) {
      const word = LAST_WORD.exec(rest)?.[0] ?? rest;
      if (word === rest) break;
      found.unshift(word);
      rest = stripEnd(rest.slice(0, rest.length - word.length), undefined);
    }
    return rest === "" ? found : [rest, ...found];
  }
  const pieces = text.split(between);
  if (pieces.length <= most + 1) return pieces;
  const first = pieces.slice(0, pieces.length - most).join(between);
  return [first, ...pieces.slice(pieces.length - most)];
}

const LAST_WORD = new RegExp(`(?<![^${SPACE}])[^${SPACE}]+$`);

/** The first character as a title has it, the others small. */
export function capitalized(text: string): string {
  const [first = ""] = text;
  return titled(first) + text.slice(first.length).toLowerCase();
}

/** `text.title()`: the first letter of each word large, the others small. */
export function title(text: string): string {
  return text.replace(/\p{Cased}+/gu, (word) => {
    const [first = ""] = word;
    return titled(first) + word.slice(first.length).toLowerCase();
  });
}

function titled(character: string): string {
  const [first = "", ...more] = character.toUpperCase();
  return first + more.join("").toLowerCase();
}

const HIDDEN = /[\p{C}\p{Z}]/u;

/** Whether Python would quote a text without escapes but those of quotes. */
export function isPrintable(text: string): boolean {
  return !HIDDEN.test(text.replaceAll(" ", ""));
}

const NAMED: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\\": "\\\\",
};

/** A text as Python's `repr` writes it. */
export function quoted(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const shown = (character: string) => {
    if (character === " ") return character;
    return NAMED[character] ?? numbered(character.codePointAt(0) ?? 0);
  };
  const escaped = text.replace(/[\p{C}\p{Z}\\]/gu, shown).replaceAll(mark, `\\${mark}`);
  return mark + escaped + mark;
}

function numbered(code: number): string {
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}
