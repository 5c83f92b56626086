/**
 * Lark's grammars, as llguidance and vLLM take them, too: a language over characters.
 *
 * Rules have small names, the first of them `start`; terminals have capital ones, and refer to
 * terminals only: texts in double quotes (`"…"i` ignores case), regular expressions (`/…/` with the
 * flags i, s and u), ranges `"a".."z"`, groups, `[…]` for what may be missing, `* + ?` and `~ m` or
 * `~ m..n`, comments after `//` or `#` (lark, docs/grammar.md). What shapes a tree or decides between
 * trees means nothing here and is read over: `!` and `?` before a name, aliases, priorities. What is
 * ignored may stand before, between and after a rule's terminals, any number of times. Terminals are
 * no longest matches: a text is taken if there is a way to read it.
 */

import { shorten } from "../errors.ts";
import { plain } from "./escapes.ts";
import { readChoice, type Syntax } from "./expressions.ts";
import { COMMON } from "./lark-terminals.ts";
import { namedRules } from "./naming.ts";
import type { Grammar, Node } from "./nodes.ts";
import { characters, rangesOf } from "./ranges.ts";
import { lowerRegex } from "./regex.ts";
import { type Counts, OTHER, Source, type Token } from "./source.ts";

const START = "start";

const KINDS = {
  space: "[ \\t\\r\\n]+|//[^\\n]*|#[^\\n]*",
  name: "[?!]{0,2}[A-Za-z_][A-Za-z0-9_]*",
  text: '"(?:[^"\\\\\\n]|\\\\[^\\n])*"i?',
  regex: "/(?:[^/\\\\\\n]|\\\\[^\\n])+/[a-z]*",
  directive: "%[a-z]+",
  number: "[0-9]+",
  range: "\\.\\.",
  alias: "->",
  token: "<[^>\\n]*>",
  sign: "[:|()\\[\\]*+?~.,{}\\-]",
  [OTHER]: "[\\s\\S]",
};
const RULE = /^_?[a-z][_a-z0-9]*$/;
const TERMINAL = /^_?[A-Z][_A-Z0-9]*$/;
const SIGNS: ReadonlyMap<string, Counts> = new Map([
  ["*", [0, null]],
  ["+", [1, null]],
  ["?", [0, 1]],
]);
const FLAGS = "isu";
// No names of people's: nothing that is read begins so.
const IGNORED = "%ignored";
const WHOLE = "%whole";

/**
 * The grammar that a text in Lark's syntax is.
 *
 * @throws EdgewiseError `input.grammar`, with line and column; `input.regex`; `unsupported.grammar`,
 *   `unsupported.regex`.
 */
export function readLark(text: string): Grammar {
  return new Lark(text).read();
}

class Lark implements Syntax {
  private readonly source: Source;
  private readonly rules = new Map<string, Node>();
  private readonly used: Token[] = [];
  private readonly ignored: Node[] = [];
  private readonly ignores: boolean;
  private inRule = false;

  constructor(text: string) {
    this.source = new Source(text, KINDS);
    this.ignores = this.source.tokens.some((token) => token.text === "%ignore");
  }

  read(): Grammar {
    const { source } = this;
    while (source.peek().kind !== "end") {
      if (source.peek().kind === "directive") this.directive(source.take());
      else this.definition();
      if (!this.beginsItem()) {
        throw source.unexpected(source.peek(), "a rule, a terminal or a directive");
      }
    }
    for (const { text, at } of this.used) {
      if (!this.rules.has(text)) {
        throw source.wrong(`there is no rule or terminal ${text.slice(0, 80)}`, at);
      }
    }
    if (!this.rules.has(START)) throw source.wrong(`there is no rule ${START}`, 0);
    if (this.ignored.length === 0) return namedRules(this.rules, START);
    const each: Node = { kind: "choice", items: this.ignored.map((node) => this.once(node)) };
    const ignored: Node = { kind: "rule", name: IGNORED };
    this.rules.set(IGNORED, { kind: "repeat", item: each, least: 0, most: null });
    this.rules.set(WHOLE, { kind: "sequence", items: [ignored, { kind: "rule", name: START }] });
    return namedRules(this.rules, WHOLE);
  }

  /**
   * What is repeated anyway, by itself where it is a repetition: a text of white space would else be
   * read in many ways.
   */
  private once(node: Node): Node {
    const inner = node.kind === "rule" ? this.rules.get(node.name) : node;
    const endless = inner?.kind === "repeat" && inner.least <= 1 && inner.most === null;
    return endless ? inner.item : node;
  }

  private definition(): void {
    const { source } = this;
    const token = source.wants("name", "a rule, a terminal or a directive");
    const name = token.text.replace(/^[?!]+/, "");
    this.inRule = RULE.test(name);
    if (!this.inRule && (name !== token.text || !TERMINAL.test(name))) {
      throw source.wrong(`${shorten(token.text)} names neither rule nor terminal`, token.at);
    }
    this.refuseTemplate();
    if (source.takes(".")) {
      source.takes("-");
      source.wants("number", "a priority");
    }
    if (!source.takes(":")) throw source.unexpected(source.peek(), "a colon");
    this.define(name, readChoice(source, this), token.at);
  }

  private define(name: string, node: Node, at: number): void {
    if (this.rules.has(name)) throw this.source.wrong(`${name.slice(0, 80)} is there twice`, at);
    this.rules.set(name, node);
  }

  private refuseTemplate(): void {
    const token = this.source.peek();
    if (token.text === "{") throw this.source.refused("a template", token.at);
  }

  private directive(token: Token): void {
    if (token.text === "%ignore") {
      this.inRule = false;
      this.ignored.push(readChoice(this.source, this));
    } else if (token.text === "%import") this.import();
    else throw this.source.refused(`the directive ${token.text.slice(0, 80)}`, token.at);
  }

  private import(): void {
    const { source } = this;
    const module = source.peek();
    if (module.text !== "common") {
      const only = "Terminals of `common` can be imported; write others out.";
      throw source.refused(`an import from ${shorten(module.text)}`, module.at, only);
    }
    source.take();
    if (source.takes("(")) {
      this.imported(source.wants("name", "a terminal"));
      while (source.takes(",")) this.imported(source.wants("name", "a terminal"));
      if (!source.takes(")")) throw source.unexpected(source.peek(), ")");
      return;
    }
    if (!source.takes(".")) throw source.unexpected(source.peek(), "a full stop");
    this.imported(source.wants("name", "a terminal"), true);
  }

  private imported(token: Token, aliased = false): void {
    const { source } = this;
    const pattern = COMMON.get(token.text);
    if (pattern === undefined) {
      const known = `There are ${[...COMMON.keys()].join(", ")}.`;
      throw source.refused(`the import of ${token.text.slice(0, 80)}`, token.at, known);
    }
    let name = token;
    if (aliased && source.peek().kind === "alias") {
      source.take();
      name = source.wants("name", "a terminal");
      if (!TERMINAL.test(name.text)) {
        throw source.wrong(`${shorten(name.text)} names no terminal`, name.at);
      }
    }
    this.define(name.text, lowerRegex(pattern, { where: "part" }), name.at);
  }

  /** Whether an item of the grammar begins here, or nothing more comes. */
  private beginsItem(): boolean {
    const token = this.source.peek();
    const after = this.source.peek(1);
    if (token.kind === "directive" || token.kind === "end") return true;
    const priority = after.text === "." && /^(number|sign)$/.test(this.source.peek(2).kind);
    return token.kind === "name" && (after.text === ":" || after.text === "{" || priority);
  }

  ends(): boolean {
    if (this.source.peek().kind === "alias") {
      this.source.take();
      this.source.wants("name", "an alias");
    }
    const { kind, text } = this.source.peek();
    return this.beginsItem() || (kind === "sign" && "|)]".includes(text));
  }

  counts(): Counts | null {
    const { source } = this;
    const token = source.peek();
    if (token.kind !== "sign" || !"*+?~".includes(token.text)) return null;
    source.take();
    const simple = SIGNS.get(token.text);
    if (simple) return simple;
    const least = source.wants("number", "a count");
    let most: string | null = null;
    if (source.peek().kind === "range") {
      source.take();
      most = source.wants("number", "a count").text;
    }
    return source.counts(least.text, most, least.at);
  }

  atom(depth: number): Node {
    const { source } = this;
    const token = source.take();
    if (token.kind === "sign" && (token.text === "(" || token.text === "[")) {
      const inner = readChoice(source, this, depth + 1);
      if (!source.takes(token.text === "(" ? ")" : "]")) {
        throw source.unexpected(source.peek(), "the end of a group");
      }
      return token.text === "(" ? inner : { kind: "repeat", item: inner, least: 0, most: 1 };
    }
    if (token.kind === "name") {
      this.refuseTemplate();
      if (RULE.test(token.text)) {
        if (!this.inRule) {
          throw source.wrong(`a terminal has the rule ${token.text.slice(0, 80)} in it`, token.at);
        }
        this.used.push(token);
        return { kind: "rule", name: token.text };
      }
    }
    return this.spaced(this.terminal(token));
  }

  /** A terminal, and in a rule what is ignored after it. */
  private spaced(terminal: Node): Node {
    if (!this.inRule || !this.ignores) return terminal;
    return { kind: "sequence", items: [terminal, { kind: "rule", name: IGNORED }] };
  }

  private terminal(token: Token): Node {
    const { source } = this;
    if (token.kind === "name" && TERMINAL.test(token.text)) {
      this.used.push(token);
      return { kind: "rule", name: token.text };
    }
    if (token.kind === "regex") return this.regex(token);
    if (token.kind === "text" && source.peek().kind === "range") {
      source.take();
      return this.range(token, source.wants("text", "a text of one character"));
    }
    if (token.kind === "text") return this.text(token);
    if (token.kind === "token") throw source.refused("a token by its name or number", token.at);
    throw source.unexpected(token, "a text, an expression, a name or a group");
  }

  private regex(token: Token): Node {
    const end = token.text.lastIndexOf("/");
    const pattern = token.text.slice(1, end);
    const flags = token.text.slice(end + 1);
    for (const flag of flags) {
      if (!FLAGS.includes(flag)) {
        throw this.source.refused(`the flag ${flag} of an expression`, token.at);
      }
    }
    const options = { ignoreCase: flags.includes("i"), dotAll: flags.includes("s") };
    return this.source.inside(token.at, () => lowerRegex(pattern, { where: "part", ...options }));
  }

  private text(token: Token): Node {
    const end = token.text.lastIndexOf('"');
    const points = this.source
      .characters(token.text.slice(1, end), token.at + 1)
      .map(({ code }) => code);
    if (points.length === 0) return { kind: "sequence", items: [] };
    if (!token.text.endsWith("i")) {
      const text = points.map((code) => String.fromCodePoint(code)).join("");
      return { kind: "literal", text };
    }
    if (points.some((code) => code > 0x7f)) {
      const what = "a character beyond ASCII in a text whose case is ignored";
      throw this.source.refused(what, token.at);
    }
    const items = points
      .map((code) => String.fromCharCode(code))
      .map((letter) => plain(characters(letter.toLowerCase() + letter.toUpperCase())));
    return { kind: "sequence", items };
  }

  private range(first: Token, last: Token): Node {
    const ends = [first, last]
      .filter(({ text }) => text.endsWith('"'))
      .map(({ text, at }) => this.source.characters(text.slice(1, -1), at + 1));
    const [[from, ...before] = [], [to, ...after] = []] = ends;
    if (!from || !to || before.length + after.length > 0 || to.code < from.code) {
      throw this.source.wrong("a range is from a character to a later one", first.at);
    }
    return plain(rangesOf([[from.code, to.code]]));
  }
}
