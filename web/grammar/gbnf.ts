/**
 * GBNF, the grammars of llama.cpp, which are also xgrammar's EBNF.
 *
 * Rules are `name ::= alternatives`, the first of them `root`: texts in double quotes, classes in
 * brackets, `.` for any character, names, groups, `* + ?` and `{m}`, `{m,}`, `{m,n}`, and comments
 * after `#` (llama.cpp, grammars/README.md). A rule goes on until the next one begins.
 */

import { plain } from "./escapes.ts";
import { readChoice, type Syntax } from "./expressions.ts";
import { namedRules } from "./naming.ts";
import type { Grammar, Node } from "./nodes.ts";
import { EVERY, others, type Pair, type Ranges, rangesOf } from "./ranges.ts";
import { type Counts, OTHER, Source, type Token } from "./source.ts";

const ROOT = "root";

const KINDS = {
  space: "[ \\t\\r\\n]+|#[^\\n]*",
  define: "::=",
  tags: "TagDispatch[ \\t]*\\(",
  name: "[A-Za-z_][A-Za-z0-9_.\\-]*",
  text: '"(?:[^"\\\\\\n]|\\\\[^\\n])*"',
  class: "\\[(?:[^\\]\\\\\\n]|\\\\[^\\n])*\\]",
  count: "\\{[ \\t]*[0-9]+[ \\t]*(?:,[ \\t]*[0-9]*[ \\t]*)?\\}",
  ahead: "\\(=",
  token: "!?<[^>\\n]*>",
  sign: "[|()*+?.]",
  [OTHER]: "[\\s\\S]",
};
const SIGNS: ReadonlyMap<string, Counts> = new Map([
  ["*", [0, null]],
  ["+", [1, null]],
  ["?", [0, 1]],
]);
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["tags", "TagDispatch"],
  ["ahead", "a look-ahead, (=…),"],
  ["token", "a token by its name or number"],
]);

/**
 * The grammar that a text in GBNF is.
 *
 * @throws EdgewiseError `input.grammar`, with line and column; `unsupported.grammar`.
 */
export function readGbnf(text: string): Grammar {
  return new Gbnf(text).read();
}

class Gbnf implements Syntax {
  private readonly source: Source;
  private readonly rules = new Map<string, Node>();
  private readonly used: Token[] = [];

  constructor(text: string) {
    this.source = new Source(text, KINDS);
  }

  read(): Grammar {
    const { source } = this;
    while (source.peek().kind !== "end") {
      const name = source.wants("name", "a rule's name");
      source.wants("define", "::=");
      if (this.rules.has(name.text)) {
        throw source.wrong(`the rule ${name.text.slice(0, 80)} is there twice`, name.at);
      }
      this.rules.set(name.text, readChoice(source, this));
      if (!this.beginsRule() && source.peek().kind !== "end") {
        throw source.unexpected(source.peek(), "a rule");
      }
    }
    for (const { text, at } of this.used) {
      if (!this.rules.has(text)) throw source.wrong(`there is no rule ${text.slice(0, 80)}`, at);
    }
    if (!this.rules.has(ROOT)) throw source.wrong(`there is no rule ${ROOT}`, 0);
    return namedRules(this.rules, ROOT);
  }

  private beginsRule(): boolean {
    return this.source.peek().kind === "name" && this.source.peek(1).kind === "define";
  }

  ends(): boolean {
    const { kind, text } = this.source.peek();
    return kind === "end" || (kind === "sign" && "|)".includes(text)) || this.beginsRule();
  }

  counts(): Counts | null {
    const token = this.source.peek();
    const simple = token.kind === "sign" ? SIGNS.get(token.text) : undefined;
    if (simple || token.kind === "count") this.source.take();
    if (simple) return simple;
    if (token.kind !== "count") return null;
    const [least = "", most] = token.text.slice(1, -1).split(",");
    return this.source.counts(least.trim(), most?.trim() ?? null, token.at);
  }

  atom(depth: number): Node {
    const { source } = this;
    const token = source.take();
    if (token.kind === "name") {
      this.used.push(token);
      return { kind: "rule", name: token.text };
    }
    if (token.kind === "text") {
      const points = source.characters(token.text.slice(1, -1), token.at + 1);
      const text = points.map(({ code }) => String.fromCodePoint(code)).join("");
      return text ? { kind: "literal", text } : { kind: "sequence", items: [] };
    }
    if (token.kind === "class") return plain(this.class(token));
    if (token.text === ".") return plain(EVERY);
    if (token.text === "(") {
      const inner = readChoice(source, this, depth + 1);
      if (!source.takes(")")) throw source.unexpected(source.peek(), ")");
      return inner;
    }
    const refused = REFUSED.get(token.kind);
    if (refused) throw source.refused(refused, token.at);
    throw source.unexpected(token, "a text, a class, a name or a group");
  }

  private class(token: Token): Ranges {
    const negated = token.text.startsWith("[^");
    const start = negated ? 2 : 1;
    const points = this.source.characters(token.text.slice(start, -1), token.at + start);
    const pairs: Pair[] = [];
    let i = 0;
    for (let first = points[i]; first; first = points[i]) {
      const [between, last] = [points[i + 1], points[i + 2]];
      const dash = between?.code === 0x2d && !between.escaped;
      pairs.push([first.code, dash && last ? last.code : first.code]);
      i += dash && last ? 3 : 1;
    }
    if (pairs.some(([first, last]) => last < first)) {
      throw this.source.wrong("a range whose last is before its first", token.at);
    }
    const ranges = negated ? others(rangesOf(pairs)) : rangesOf(pairs);
    if (ranges.length === 0) throw this.source.wrong("a class that holds no character", token.at);
    return ranges;
  }
}
