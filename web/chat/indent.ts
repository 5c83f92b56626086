/** JSON as people read it, also while it comes. */

const INDENT = "  ";
const STRING = /"(?:[^"\\]|\\[\s\S])*(?:"|\\?$)/y;

/**
 * JSON, or the beginning of it, with a line for each member. Numbers and texts stay as they were written; what is no
 * JSON stays as it is.
 */
export function indented(json: string): string {
  let text = "";
  let depth = 0;
  let at = 0;
  const line = () => `\n${INDENT.repeat(Math.max(depth, 0))}`;
  while (at < json.length) {
    const character = json.charAt(at);
    STRING.lastIndex = at;
    const string = STRING.exec(json)?.[0];
    if (string !== undefined) {
      text += string;
      at += string.length;
      continue;
    }
    at += 1;
    if (/\s/.test(character)) continue;
    const next = /\S/.exec(json.slice(at, at + 64))?.[0];
    if (character === "{" || character === "[") {
      const empty = next === "}" || next === "]";
      depth += 1;
      text += empty || next === undefined ? character : character + line();
    } else if (character === "}" || character === "]") {
      depth -= 1;
      text += /[{[]$/.test(text) ? character : line() + character;
    } else if (character === ",") {
      text += character + line();
    } else {
      text += character === ":" ? ": " : character;
    }
  }
  return text;
}
