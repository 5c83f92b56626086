/** The grammar of a template's expressions. */

import {
  Attribute,
  Call,
  Chain,
  Choice,
  Compared,
  Constant,
  Filter,
  Given,
  Index,
  Items,
  Joined,
  Logic,
  Name,
  Not,
  Pairs,
  type Rest,
  Signed,
  Slice,
  Test,
} from "./expressions.ts";
import { CONSTANTS, RESERVED, TokenReader } from "./reader.ts";
import type { Expression } from "./run.ts";

const NEGATION = 3;
const COMPARISON = 4;
const OPERATORS: readonly (readonly string[])[] = [
  [],
  ["or"],
  ["and"],
  [],
  ["==", "!=", "<", "<=", ">", ">=", "in", "not in"],
  ["+", "-"],
  ["~"],
  ["*", "/", "//", "%"],
  ["**"],
];
const RANKS: ReadonlyMap<string, number> = new Map(
  OPERATORS.flatMap((operators, rank) => operators.map((operator) => [operator, rank] as const)),
);
const NODES: Readonly<Record<number, new (first: Expression, rest: Rest) => Expression>> = {
  1: Logic,
  2: Logic,
  [COMPARISON]: Compared,
  5: Chain,
  6: Joined,
  7: Chain,
  8: Chain,
};
export const NO_ARGUMENTS = new Given([], []);

/** Reads expressions. */
export class ExpressionParser extends TokenReader {
  /** One expression, or several with commas between them, which are a tuple. */
  tuple({ conditional = true, parenthesized = false } = {}): Expression {
    const items: Expression[] = [];
    let several = false;
    while (this.token.kind !== "close" && !this.isSign(")")) {
      items.push(conditional ? this.expression() : this.binary(1));
      if (!this.skip(",")) break;
      several = true;
    }
    const [first] = items;
    if (first && items.length === 1 && !several) return first;
    if (!first && !parenthesized) {
      throw this.error(`an expression is missing before ${this.next()}`);
    }
    return new Items(items, true);
  }

  expression(): Expression {
    this.enter();
    let node = this.binary(1);
    while (this.skipWord("if")) {
      const test = this.binary(1);
      node = new Choice(test, node, this.skipWord("else") ? this.expression() : null);
    }
    this.leave();
    return node;
  }

  /** The operator that comes next, or nothing. */
  private operator(): string {
    const { kind, value } = this.token;
    if (kind === "name" && value === "not") {
      const after = this.peek(1);
      return after.kind === "name" && after.value === "in" ? "not in" : "";
    }
    return (kind === "sign" || kind === "name") && RANKS.has(value) ? value : "";
  }

  private binary(lowest: number): Expression {
    let node = lowest > NEGATION ? this.unary() : this.negated();
    for (let rank = this.rank(); rank >= lowest; rank = this.rank()) {
      const rest: [string, Expression][] = [];
      while (this.rank() === rank) {
        const operator = this.operator();
        this.at += operator === "not in" ? 2 : 1;
        rest.push([operator, this.binary(rank + 1)]);
      }
      const Node = NODES[rank];
      if (Node) node = new Node(node, rest);
    }
    return node;
  }

  private rank(): number {
    return RANKS.get(this.operator()) ?? 0;
  }

  private negated(): Expression {
    if (!this.skipWord("not")) return this.unary();
    this.enter();
    const node = new Not(this.binary(NEGATION));
    this.leave();
    return node;
  }

  private unary(): Expression {
    this.enter();
    const node = this.filtered(this.signed());
    this.leave();
    return node;
  }

  private signed(): Expression {
    const sign = this.isSign("-") ? -1 : Number(this.isSign("+"));
    if (sign === 0) return this.postfix(this.primary());
    this.advance();
    this.enter();
    const node = new Signed(this.signed(), sign);
    this.leave();
    return node;
  }

  primary(): Expression {
    const token = this.advance();
    if (token.kind === "name") return this.named(token.value);
    if (token.kind === "number") return new Constant(token.value);
    if (token.kind === "text") {
      let text = token.value;
      while (this.token.kind === "text") text += String(this.advance().value);
      return new Constant(text);
    }
    if (token.kind === "sign" && token.value === "(") {
      const node = this.tuple({ parenthesized: true });
      this.sign(")");
      return node;
    }
    if (token.kind === "sign" && token.value === "[") return this.list();
    if (token.kind === "sign" && token.value === "{") return this.dict();
    this.at -= 1;
    throw this.error(`${this.next()} is unexpected`);
  }

  private named(name: string): Expression {
    if (RESERVED.has(name) || name === "varargs" || name === "kwargs") {
      throw this.error(`${name} is unexpected, or not supported`);
    }
    const constant = CONSTANTS.get(name);
    return constant === undefined ? new Name(name) : new Constant(constant);
  }

  private list(): Expression {
    const items: Expression[] = [];
    while (!this.isSign("]")) {
      items.push(this.expression());
      if (!this.skip(",")) break;
    }
    this.sign("]");
    return new Items(items, false);
  }

  private dict(): Expression {
    const pairs: [Expression, Expression][] = [];
    while (!this.isSign("}")) {
      const key = this.expression();
      this.sign(":");
      pairs.push([key, this.expression()]);
      if (!this.skip(",")) break;
    }
    this.sign("}");
    return new Pairs(pairs);
  }

  postfix(base: Expression): Expression {
    let node = base;
    while (true) {
      if (this.skip(".")) {
        const { token } = this;
        if (token.kind === "number" && typeof token.value === "number") {
          this.advance();
          node = new Index(node, new Constant(token.value));
        } else {
          node = new Attribute(node, this.name("a name"));
        }
      } else if (this.skip("[")) node = this.subscript(node);
      else if (this.skip("(")) node = new Call(node, this.given());
      else return node;
    }
  }

  private subscript(node: Expression): Expression {
    const bounds: (Expression | null)[] = [];
    while (bounds.length < 3) {
      const ends = this.isSign(":") || this.isSign("]");
      bounds.push(ends ? null : this.expression());
      if (!this.skip(":")) break;
    }
    this.sign("]");
    if (bounds.length > 1) return new Slice(node, [...bounds, null, null].slice(0, 3));
    const [key] = bounds;
    if (!key) throw this.error("an index is missing");
    return new Index(node, key);
  }

  private filtered(base: Expression): Expression {
    let node = base;
    while (true) {
      if (this.skip("|")) {
        const name = this.dotted("a filter");
        node = new Filter(node, name, this.skip("(") ? this.given() : NO_ARGUMENTS);
      } else if (this.skipWord("is")) node = this.test(node);
      else if (this.skip("(")) node = new Call(node, this.given());
      else return node;
    }
  }

  private test(node: Expression): Expression {
    const negated = this.skipWord("not");
    const name = this.dotted("a test");
    let given = NO_ARGUMENTS;
    if (this.skip("(")) given = this.given();
    else if (this.beginsArgument()) given = new Given([this.postfix(this.primary())], []);
    const test = new Test(node, name, given);
    return negated ? new Not(test) : test;
  }

  private beginsArgument(): boolean {
    const { kind, value } = this.token;
    if (kind === "name") {
      if (["is", "if", "in", "not"].includes(value))
        throw this.error(`${value} cannot follow a test`);
      return !RESERVED.has(value);
    }
    return this.isSign("[") || this.isSign("{") || kind === "text" || kind === "number";
  }

  /** The arguments of a call, after its parenthesis. */
  given(): Given {
    const placed: Expression[] = [];
    const named: [string, Expression][] = [];
    while (!this.skip(")")) {
      if (placed.length + named.length > 0) {
        this.sign(",");
        if (this.skip(")")) break;
      }
      const after = this.peek(1);
      if (this.token.kind === "name" && after.kind === "sign" && after.value === "=") {
        const name = this.name("a name");
        this.sign("=");
        if (named.some(([known]) => known === name)) throw this.error(`${name} is given twice`);
        named.push([name, this.expression()]);
      } else if (named.length > 0) {
        throw this.error("an argument without a name follows one with one");
      } else {
        placed.push(this.expression());
      }
    }
    return new Given(placed, named);
  }

  /** A call, as its parts. */
  called(): Call {
    const node = this.postfix(this.primary());
    if (!(node instanceof Call)) throw this.error("a call is missing");
    return node;
  }
}
