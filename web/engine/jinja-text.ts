/** Text as Python has it: what stripping leaves of one, and what values are in one. */

const SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const LEADING_SPACE = new RegExp(`^[${SPACE}]+`);
const TRAILING_SPACE = new RegExp(`(?<![${SPACE}])[${SPACE}]+$`);

export type Strip = (text: string, characters: string | undefined) => string;

export const strip: Strip = (text, characters) =>
  stripEnd(stripStart(text, characters), characters);

/** By the names of Python's methods. */
export const STRIPS: Readonly<Record<string, Strip>> = {
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

/** What `~` joins of the interpreter's values, by their types. */
const JOINED: Readonly<Record<string, (value: unknown) => string>> = {
  UndefinedValue: () => "",
  NullValue: () => "None",
  BooleanValue: (value) => (value ? "True" : "False"),
  StringValue: String,
  IntegerValue: String,
  FloatValue: (value) => (Number.isInteger(value) ? Number(value).toFixed(1) : String(value)),
};

/**
 * A value as `str` writes it.
 *
 * @throws Error for lists and objects, which Python writes in its own syntax.
 */
export function joined({
  type,
  value,
}: {
  readonly type: string;
  readonly value: unknown;
}): string {
  const text = Object.hasOwn(JOINED, type) ? JOINED[type]?.(value) : undefined;
  if (text === undefined) throw new Error(`only text and numbers can be joined, no ${type}`);
  return text;
}
