/** The grammar of templates: Jinja's, without inheritance, imports and recursive loops. */

import type { Given } from "./expressions.ts";
import { ExpressionParser, NO_ARGUMENTS } from "./grammar.ts";
import { tokenize } from "./lexer.ts";
import type { Expression, Flow, Statement } from "./run.ts";
import {
  type Branch,
  CallBlock,
  Captured,
  For,
  If,
  Leave,
  Macro,
  SetTo,
  Target,
  Text,
  With,
  Written,
} from "./statements.ts";

/**
 * The statements of a template.
 *
 * @throws TemplateSyntaxError for what is none, or uses what is not supported.
 */
export function parse(source: string): readonly Statement[] {
  return new Parser(tokenize(source)).body([]);
}

class Parser extends ExpressionParser {
  private loops = 0;

  /** The statements up to a tag named in `ends`, whose name is the next token. */
  body(ends: readonly string[]): readonly Statement[] {
    const statements: Statement[] = [];
    this.enter();
    while (true) {
      if (this.token.kind === "end") {
        if (ends.length > 0) throw this.error(`${ends.join(" or ")} is missing`);
        break;
      }
      const { kind, value } = this.advance();
      if (kind === "data") statements.push(new Text(value));
      else if (value === "{") {
        statements.push(new Written(this.tuple()));
        this.close();
      } else {
        if (this.token.kind === "name" && ends.includes(this.token.value)) break;
        statements.push(this.statement());
      }
    }
    this.leave();
    return statements;
  }

  private statement(): Statement {
    const name = this.name("a tag");
    const parse = TAGS.get(name);
    if (!parse) throw this.error(`the tag '${name}' is unknown here`);
    return parse(this);
  }

  /** The statements after a tag, whose end comes first, up to a tag that ends them. */
  private block(...ends: string[]): readonly Statement[] {
    this.close();
    return this.body(ends);
  }

  /** A body whose loops are its own, with its end. */
  private inner(end: string): readonly Statement[] {
    const { loops } = this;
    this.loops = 0;
    const body = this.block(end);
    this.loops = loops;
    this.end();
    return body;
  }

  private end(): void {
    this.name("a tag");
    this.close();
  }

  if(): Statement {
    const branches: Branch[] = [];
    let ending = "elif";
    while (ending === "elif") {
      const test = this.tuple({ conditional: false });
      branches.push([test, this.block("elif", "else", "endif")]);
      ending = this.name("a tag");
    }
    let otherwise: readonly Statement[] = [];
    if (ending === "else") {
      otherwise = this.block("endif");
      this.name("a tag");
    }
    this.close();
    return new If(branches, otherwise);
  }

  for(): Statement {
    const target = this.target();
    this.word("in");
    const items = this.tuple({ conditional: false });
    const condition = this.skipWord("if") ? this.expression() : null;
    if (this.skipWord("recursive")) throw this.error("recursive loops are not supported");
    this.loops += 1;
    const body = this.block("else", "endfor");
    this.loops -= 1;
    let otherwise: readonly Statement[] = [];
    if (this.name("a tag") === "else") {
      otherwise = this.block("endfor");
      this.name("a tag");
    }
    this.close();
    return new For(target, items, condition, body, otherwise);
  }

  set(): Statement {
    const target = this.target(true);
    if (this.skip("=")) {
      const value = this.tuple();
      this.close();
      return new SetTo(target, value);
    }
    return new Captured(target, this.filters(), this.inner("endset"));
  }

  filter(): Statement {
    const name = this.dotted("a filter");
    const first: [string, Given] = [name, this.skip("(") ? this.given() : NO_ARGUMENTS];
    return new Captured(null, [first, ...this.filters()], this.inner("endfilter"));
  }

  macro(): Statement {
    const name = this.name("the name of a macro");
    const [parameters, defaults] = this.parameters();
    return new Macro(name, parameters, defaults, this.inner("endmacro"));
  }

  call(): Statement {
    const [parameters, defaults] = this.isSign("(") ? this.parameters() : [[], []];
    const { callee, given } = this.called();
    const caller = new Macro("caller", parameters, defaults, this.inner("endcall"));
    return new CallBlock(callee, given, caller);
  }

  generation(): Statement {
    const body = new Macro("generation", [], [], this.inner("endgeneration"));
    return new CallBlock(null, NO_ARGUMENTS, body);
  }

  with(): Statement {
    const values: [Target, Expression][] = [];
    while (this.token.kind !== "close") {
      if (values.length > 0) this.sign(",");
      const target = this.target();
      this.sign("=");
      values.push([target, this.expression()]);
    }
    const body = this.block("endwith");
    this.end();
    return new With(values, body);
  }

  exit(flow: Flow): Statement {
    if (this.loops === 0) throw this.error(`${flow} is outside of a loop`);
    this.close();
    return new Leave(flow);
  }

  private parameters(): [string[], Expression[]] {
    this.sign("(");
    const names: string[] = [];
    const defaults: Expression[] = [];
    while (!this.skip(")")) {
      if (names.length > 0) this.sign(",");
      const name = this.settable();
      if (names.includes(name)) throw this.error(`${name} is a parameter twice`);
      names.push(name);
      if (this.skip("=")) defaults.push(this.expression());
      else if (defaults.length > 0) {
        throw this.error("a parameter without a default follows one with one");
      }
    }
    return [names, defaults];
  }

  private target(member = false): Target {
    const parenthesized = this.skip("(");
    const names = [this.settable()];
    if (member && this.skip(".")) return new Target(names, false, this.name("a name"));
    let several = parenthesized;
    while (this.skip(",")) {
      several = true;
      if (this.token.kind !== "name" || this.token.value === "in") break;
      names.push(this.settable());
    }
    if (parenthesized) {
      this.sign(")");
      several = several && names.length > 1;
    }
    return new Target(names, several);
  }

  private filters(): [string, Given][] {
    const filters: [string, Given][] = [];
    while (this.skip("|")) {
      const name = this.dotted("a filter");
      filters.push([name, this.skip("(") ? this.given() : NO_ARGUMENTS]);
    }
    return filters;
  }
}

const TAGS: ReadonlyMap<string, (parser: Parser) => Statement> = new Map([
  ["break", (parser: Parser) => parser.exit("break")],
  ["call", (parser) => parser.call()],
  ["continue", (parser) => parser.exit("continue")],
  ["filter", (parser) => parser.filter()],
  ["for", (parser) => parser.for()],
  ["generation", (parser) => parser.generation()],
  ["if", (parser) => parser.if()],
  ["macro", (parser) => parser.macro()],
  ["set", (parser) => parser.set()],
  ["with", (parser) => parser.with()],
]);
