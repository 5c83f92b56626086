/**
 * JSON's grammars as those of the same values in another notation. As in Python's `calls/respelling.py`.
 *
 * What is respelled is a grammar that a schema was lowered to (`grammar/schema`): its texts are JSON on one line, with
 * `, ` and `: `. The nodes are gone through in the order of the text, with what is known of the place in it: whether it
 * is in a string, and in an escape there.
 */

import { type EdgewiseError, shorten } from "../errors.ts";
import { textsWithout } from "../grammar/avoiding.ts";
import { type Escape, jsonEscape, plain } from "../grammar/escapes.ts";
import { type Node, simplified } from "../grammar/nodes.ts";
import { characters, common, others, type Pair, type Ranges, rangesOf } from "../grammar/ranges.ts";
import { refused } from "./refusing.ts";
import { isName } from "./source.ts";

const STRUCTURE = /(?<key>"(?:[^"\\]|\\.)*"): |(?<sign>, |: |true|false|null|[{[}\]"])/u;
const BODY = /^(?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])*/u;
const ESCAPE = /^\\(?:u[0-9a-f]{0,3})?$/;
const DEEPER: ReadonlyMap<string, number> = new Map([
  ["{", 1],
  ["[", 1],
  ["}", -1],
  ["]", -1],
]);
const EMPTY: Node = { kind: "sequence", items: [] };

/** How values are written in a notation. */
export interface Respelling {
  /** What a string stands between. */
  readonly quote: string;
  /** Characters of a string. */
  readonly escape: Escape;
  /** What no string may have in it; empty where all may be written. */
  readonly avoided: string;
  /** Of JSON's words and separators those that are others. */
  readonly words: ReadonlyMap<string, string>;
  /** Names in objects stand without quotes where they can. */
  readonly bareKeys: boolean;
  /** A string that is no part of another value stands without quotes, as it is. */
  readonly bareText: boolean;
}

/** A notation of which only what is not JSON's is given. */
export function respelling(given: Partial<Respelling>): Respelling {
  return {
    quote: '"',
    escape: jsonEscape,
    avoided: "",
    words: new Map(),
    bareKeys: false,
    bareText: false,
    ...given,
  };
}

/** Where in a text a node begins or ends. */
interface Place {
  /** How many arrays and objects are around it; of a rule that is within some, 1. */
  readonly depth: number;
  /** Of the string that it is in, as much of an escape as has come; null outside. */
  readonly string: string | null;
}

type Rules = Map<string, Node>;

/**
 * The node of the same values in another notation.
 *
 * Where a notation has a mark that no string may have, a string of any length is any that has not; a string whose
 * length is bounded, or that has a pattern, has the first character of the mark only where the pattern spells it.
 *
 * @param given the node's rules.
 * @param rules those that the respelled node needs are added, under names with the prefix.
 * @throws EdgewiseError `unsupported.tool_choice` for strings that have the mark.
 */
export function respelled(
  node: Node,
  given: ReadonlyMap<string, Node>,
  rules: Rules,
  prefix: string,
  how: Respelling,
): Node {
  const start: Place = { depth: 0, string: null };
  const [found, end] = new Respelled(given, rules, prefix, how).node(
    simplified(node),
    start,
    false,
  );
  check(end, start);
  return found;
}

class Respelled {
  private readonly given: ReadonlyMap<string, Node>;
  private readonly rules: Rules;
  private readonly prefix: string;
  private readonly how: Respelling;
  private readonly known = new Map<string, Node>();
  private readonly texts = new Map<string, Node>();

  constructor(given: ReadonlyMap<string, Node>, rules: Rules, prefix: string, how: Respelling) {
    this.given = given;
    this.rules = rules;
    this.prefix = prefix;
    this.how = how;
  }

  /**
   * A node respelled, and where it ends.
   *
   * @param closes a string ends where the node does.
   */
  node(node: Node, at: Place, closes: boolean): readonly [Node, Place] {
    switch (node.kind) {
      case "literal":
        return this.literal(node.text, at, closes);
      case "chars":
        return this.characters(node.ranges, at);
      case "sequence":
        return this.sequence(node.items, at, closes);
      case "choice": {
        const found = node.items.map((item) => this.node(item, at, closes));
        const ends = found[0]?.[1] ?? at;
        for (const [, end] of found) check(end, ends);
        return [{ kind: "choice", items: found.map(([item]) => item) }, ends];
      }
      case "repeat":
        return [this.repeat(node.item, node.least, node.most, at, closes), at];
      case "rule":
        return [this.rule(node.name, at, closes), at];
    }
  }

  private rule(name: string, at: Place, closes: boolean): Node {
    const start = { ...at, depth: Math.min(at.depth, 1) };
    const key = JSON.stringify([name, start.depth, start.string, closes]);
    let found = this.known.get(key);
    if (!found) {
      const made = this.name();
      found = { kind: "rule", name: made };
      this.known.set(key, found);
      const inner = this.given.get(name);
      if (!inner) throw refused(`A grammar has no rule ${shorten(name)}.`);
      const [node, end] = this.node(simplified(inner), start, closes);
      this.rules.set(made, node);
      check(end, start);
    }
    return found;
  }

  private sequence(items: readonly Node[], start: Place, closes: boolean): readonly [Node, Place] {
    const found: Node[] = [];
    let at = start;
    for (const [i, item] of items.entries()) {
      const behind = items[i + 1];
      const quoted = behind?.kind === "literal" && behind.text.startsWith('"');
      const [made, end] = this.node(item, at, behind ? quoted : closes);
      found.push(made);
      at = end;
    }
    return [{ kind: "sequence", items: found }, at];
  }

  private repeat(item: Node, least: number, most: number | null, at: Place, closes: boolean): Node {
    const ranges = at.string === "" ? oneCharacter(item) : null;
    if (ranges && most === null && least <= 1 && this.how.avoided) {
      return this.anyText(ranges, least, closes, at);
    }
    const [made, end] = this.node(item, at, closes && most === 1);
    check(end, at);
    return { kind: "repeat", item: made, least, most };
  }

  private anyText(ranges: Ranges, least: number, closes: boolean, at: Place): Node {
    const key = JSON.stringify([ranges, least, closes, this.isBare(at)]);
    let found = this.texts.get(key);
    if (!found) {
      const made = this.name();
      found = { kind: "rule", name: made };
      this.texts.set(key, found);
      const text = textsWithout(this.how.avoided, ranges, this.escape(at), least, closes);
      this.rules.set(made, text);
    }
    return found;
  }

  private name(): string {
    return `${this.prefix}${this.known.size + this.texts.size}`;
  }

  private literal(text: string, start: Place, closes: boolean): readonly [Node, Place] {
    const found: Node[] = [];
    let [left, at] = [text, start];
    while (left) {
      const [part, rest, end] =
        at.string === null ? this.outside(left, at) : this.inside(left, at, at.string, closes);
      found.push(part);
      [left, at] = [rest, end];
    }
    return [simplified({ kind: "sequence", items: found }), at];
  }

  /** What a text begins with that is no part of a string, what is left, and where that is. */
  private outside(text: string, at: Place): readonly [Node, string, Place] {
    const found = STRUCTURE.exec(text);
    if (!found) return [literal(text), "", at];
    if (found.index > 0) return [literal(text.slice(0, found.index)), text.slice(found.index), at];
    const left = text.slice(found[0].length);
    const { key, sign = "" } = found.groups ?? {};
    if (key) return [literal(this.key(String(JSON.parse(key)))), left, at];
    if (sign === '"') return [this.quote(at), left, { ...at, string: "" }];
    const end = { ...at, depth: at.depth + (DEEPER.get(sign) ?? 0) };
    return [literal(this.how.words.get(sign) ?? sign), left, end];
  }

  private key(name: string): string {
    const { quote, words, bareKeys } = this.how;
    const colon = words.get(": ") ?? ": ";
    if (bareKeys && isName(name)) return name + colon;
    this.refuseMarked(name, true);
    return quote + spelled(name, this.how.escape) + quote + colon;
  }

  /** As `outside`, of what is part of a string, of which a beginning of an escape has come. */
  private inside(
    text: string,
    at: Place,
    before: string,
    closes: boolean,
  ): readonly [Node, string, Place] {
    const body = BODY.exec(before + text)?.[0] ?? "";
    const left = (before + text).slice(body.length);
    const whole = left.startsWith('"');
    if (body) {
      const said = String(JSON.parse(`"${body}"`));
      this.refuseMarked(said, whole || (closes && !left));
      return [literal(spelled(said, this.escape(at))), left, { ...at, string: "" }];
    }
    if (whole) return [this.quote(at), left.slice(1), { ...at, string: null }];
    if (!ESCAPE.test(left)) throw refused("A grammar has strings with escapes that are none.");
    return [EMPTY, "", { ...at, string: left }];
  }

  private characters(given: Ranges, at: Place): readonly [Node, Place] {
    if (at.string === null) return [{ kind: "chars", ranges: given }, at];
    const ranges = at.string ? escapedBy(at.string, given) : given;
    const first = this.how.avoided.charAt(0);
    const kept = first ? common(ranges, others(characters(first))) : ranges;
    if (kept.length === 0) throw this.marked(first);
    return [this.escape(at)(kept), { ...at, string: "" }];
  }

  private isBare(at: Place): boolean {
    return this.how.bareText && at.depth === 0;
  }

  private escape(at: Place): Escape {
    return this.isBare(at) ? plain : this.how.escape;
  }

  private quote(at: Place): Node {
    return this.isBare(at) ? EMPTY : literal(this.how.quote);
  }

  /** Refuse a text that has the mark, or that one may begin in which goes on behind it. */
  private refuseMarked(text: string, whole: boolean): void {
    const mark = this.how.avoided;
    const begun = Array.from({ length: whole ? 0 : mark.length - 1 }, (_, i) =>
      mark.slice(0, i + 1),
    );
    if (mark && (text.includes(mark) || begun.some((start) => text.endsWith(start)))) {
      throw this.marked(text);
    }
  }

  private marked(text: string): EdgewiseError {
    return refused(
      `A string of a tool's schema has ${shorten(text)} in it, which may begin ` +
        `${shorten(this.how.avoided)}, the mark that ends strings.`,
    );
  }
}

/** Refuse a grammar in which places differ. */
function check(found: Place, wanted: Place): void {
  if (found.depth !== wanted.depth || found.string !== wanted.string) {
    throw refused("A grammar has strings or brackets that begin here and end there.");
  }
}

function literal(text: string): Node {
  return { kind: "literal", text };
}

function spelled(text: string, spell: Escape): string {
  const nodes = [...text].map((character) => simplified(spell(characters(character))));
  return nodes.map((node) => (node.kind === "literal" ? node.text : "")).join("");
}

/** The characters that an escape stands for whose last character is one of a set. */
function escapedBy(start: string, ranges: Ranges): Ranges {
  return rangesOf(
    ranges.flatMap(([first, last]) =>
      Array.from(
        { length: last - first + 1 },
        (_, i) => saidBy(start + String.fromCodePoint(first + i)) ?? [],
      ).flat(),
    ),
  );
}

/** The set of characters that a node spells one of, inside a JSON string. */
function oneCharacter(node: Node): Ranges | null {
  if (node.kind === "literal") return saidBy(node.text);
  if (node.kind === "chars") return node.ranges;
  if (node.kind === "choice") {
    const found: Pair[] = [];
    for (const item of node.items) {
      const ranges = oneCharacter(item);
      if (!ranges) return null;
      found.push(...ranges);
    }
    return rangesOf(found);
  }
  if (node.kind !== "sequence" || node.items.length !== 2) return null;
  const [start, last] = node.items;
  if (start?.kind !== "literal" || last?.kind !== "chars" || !ESCAPE.test(start.text)) return null;
  return escapedBy(start.text, last.ranges);
}

function saidBy(text: string): Ranges | null {
  try {
    const said = String(JSON.parse(`"${text}"`));
    return [...said].length === 1 ? characters(said) : null;
  } catch {
    return null;
  }
}
