/** How a text's characters are spelled where a grammar writes them: as they are, or in JSON. */

import type { Node } from "./nodes.ts";
import { characters, common, others, type Ranges, rangesOf } from "./ranges.ts";

/** What stands for one character out of a set that is not empty. */
export type Escape = (ranges: Ranges) => Node;

const SHORT = new Map([...'"\\\b\f\n\r\t'].map((c, i) => [c.charCodeAt(0), '"\\bfnrt'.charAt(i)]));
const ESCAPED = rangesOf([[0, 0x1f], ...[...SHORT.keys()].map((c) => [c, c] as const)]);
const UNESCAPED = others(ESCAPED);

/** Characters as they are. */
export function plain(ranges: Ranges): Node {
  const [pair] = ranges;
  return ranges.length === 1 && pair && pair[0] === pair[1]
    ? { kind: "literal", text: String.fromCodePoint(pair[0]) }
    : { kind: "chars", ranges };
}

/**
 * Characters inside a JSON string, spelled as Python's `json.dumps(…, ensure_ascii=False)` spells
 * them: the short escapes, `\u00` and two small digits for other control characters (RFC 8259,
 * section 7), and everything else as it is. `JSON.stringify` spells them so, too.
 */
export function jsonEscape(ranges: Ranges): Node {
  const spelled: Node[] = [];
  const bare = common(ranges, UNESCAPED);
  if (bare.length > 0) spelled.push(plain(bare));
  const codes = common(ranges, ESCAPED).flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, i) => first + i),
  );
  const short = codes.map((code) => SHORT.get(code) ?? "").join("");
  if (short) spelled.push(after("\\", short));
  for (const high of [0, 1]) {
    const long = codes.filter((code) => code >> 4 === high && !SHORT.has(code));
    const digits = long.map((code) => (code & 15).toString(16)).join("");
    if (digits) spelled.push(after(`\\u00${high}`, digits));
  }
  const [only] = spelled;
  return spelled.length === 1 && only ? only : { kind: "choice", items: spelled };
}

function after(start: string, one: string): Node {
  return { kind: "sequence", items: [{ kind: "literal", text: start }, plain(characters(one))] };
}
