/** The expressions of a template, as the parser builds them. */

import { joined, negative, OPERATORS } from "./arithmetic.ts";
import { check } from "./checks.ts";
import { contains, equal, order } from "./compare.ts";
import { filtered } from "./filters.ts";
import { GLOBALS } from "./functions.ts";
import { attribute, item, part } from "./members.ts";
import { type Expression, type Run, type Scope, TemplateError } from "./run.ts";
import {
  Arguments,
  Callable,
  type Key,
  kind,
  Tuple,
  textOf,
  truth,
  Undefined,
  type Value,
} from "./values.ts";

/** Operators and their right sides. */
export type Rest = readonly (readonly [string, Expression])[];

export class Constant implements Expression {
  constructor(private readonly of: Value) {}

  value(): Value {
    return this.of;
  }
}

export class Name implements Expression {
  constructor(private readonly name: string) {}

  value(_: Run, scope: Scope): Value {
    for (let inner: Scope | null = scope; inner; inner = inner.parent) {
      const found = inner.names.get(this.name);
      if (found !== undefined) return found;
    }
    return GLOBALS.get(this.name) ?? new Undefined(`'${this.name}' is undefined`);
  }
}

/** A list or tuple that is written out. */
export class Items implements Expression {
  constructor(
    private readonly items: readonly Expression[],
    private readonly isTuple: boolean,
  ) {}

  value(run: Run, scope: Scope): Value {
    run.items(this.items.length);
    const values = this.items.map((node) => run.evaluate(node, scope));
    return this.isTuple ? new Tuple(values) : values;
  }
}

/** A dict that is written out. */
export class Pairs implements Expression {
  constructor(private readonly pairs: readonly (readonly [Expression, Expression])[]) {}

  value(run: Run, scope: Scope): Value {
    run.items(2 * this.pairs.length);
    const values = new Map<Key, Value>();
    for (const [keyNode, valueNode] of this.pairs) {
      const key = run.evaluate(keyNode, scope);
      if (typeof key !== "string" && typeof key !== "number") {
        throw new TemplateError(`a key is text or a whole number, not ${kind(key)}`);
      }
      values.set(key, run.evaluate(valueNode, scope));
    }
    return values;
  }
}

export class Attribute implements Expression {
  constructor(
    private readonly base: Expression,
    private readonly name: string,
  ) {}

  value(run: Run, scope: Scope): Value {
    return attribute(run.evaluate(this.base, scope), this.name);
  }
}

export class Index implements Expression {
  constructor(
    private readonly base: Expression,
    private readonly key: Expression,
  ) {}

  value(run: Run, scope: Scope): Value {
    const base = run.evaluate(this.base, scope);
    return item(base, run.evaluate(this.key, scope));
  }
}

/** `base[start:stop:step]`; null for what is left out. */
export class Slice implements Expression {
  constructor(
    private readonly base: Expression,
    private readonly bounds: readonly (Expression | null)[],
  ) {}

  value(run: Run, scope: Scope): Value {
    const base = run.evaluate(this.base, scope);
    const bounds = this.bounds.map((node) => (node ? run.evaluate(node, scope) : null));
    return part(run, base, bounds);
  }
}

/** The arguments of a call. */
export class Given {
  constructor(
    private readonly placed: readonly Expression[],
    private readonly named: Rest,
  ) {}

  arguments(run: Run, scope: Scope): Arguments {
    run.items(this.placed.length + 2 * this.named.length);
    return new Arguments(
      this.placed.map((node) => run.evaluate(node, scope)),
      new Map(this.named.map(([name, node]) => [name, run.evaluate(node, scope)])),
    );
  }
}

export class Call implements Expression {
  constructor(
    readonly callee: Expression,
    readonly given: Given,
  ) {}

  value(run: Run, scope: Scope): Value {
    const callee = run.evaluate(this.callee, scope);
    if (!(callee instanceof Callable)) {
      const unknown = callee instanceof Undefined ? callee.said : "";
      throw new TemplateError(unknown || `a ${kind(callee)} cannot be called`);
    }
    return callee.call(run, this.given.arguments(run, scope));
  }
}

export class Filter implements Expression {
  constructor(
    private readonly base: Expression,
    private readonly name: string,
    private readonly given: Given,
  ) {}

  value(run: Run, scope: Scope): Value {
    const base = run.evaluate(this.base, scope);
    return filtered(run, this.name, base, this.given.arguments(run, scope));
  }
}

export class Test implements Expression {
  constructor(
    private readonly base: Expression,
    private readonly name: string,
    private readonly given: Given,
  ) {}

  value(run: Run, scope: Scope): Value {
    const base = run.evaluate(this.base, scope);
    return check(run, this.name, base, this.given.arguments(run, scope));
  }
}

export class Signed implements Expression {
  constructor(
    private readonly operand: Expression,
    private readonly sign: number,
  ) {}

  value(run: Run, scope: Scope): Value {
    return negative(run.evaluate(this.operand, scope), this.sign);
  }
}

export class Not implements Expression {
  constructor(private readonly operand: Expression) {}

  value(run: Run, scope: Scope): Value {
    return !truth(run.evaluate(this.operand, scope));
  }
}

/** Operators of one rank, from left to right: `first + a - b`. */
export class Chain implements Expression {
  constructor(
    private readonly first: Expression,
    private readonly rest: Rest,
  ) {}

  value(run: Run, scope: Scope): Value {
    let value = run.evaluate(this.first, scope);
    for (const [operator, node] of this.rest) {
      const calculate = OPERATORS[operator];
      if (!calculate) throw new TemplateError(`there is no operator ${operator}`);
      value = calculate(run, value, run.evaluate(node, scope));
    }
    return value;
  }
}

/** `first ~ a ~ b`. */
export class Joined implements Expression {
  constructor(
    private readonly first: Expression,
    private readonly rest: Rest,
  ) {}

  value(run: Run, scope: Scope): Value {
    const nodes = [this.first, ...this.rest.map(([, node]) => node)];
    const values = nodes.map((node) => run.evaluate(node, scope));
    return joined(
      run,
      values.map((value) => textOf(run, value)),
    );
  }
}

const COMPARISONS: Readonly<Record<string, (run: Run, a: Value, b: Value) => boolean>> = {
  "==": equal,
  "!=": (run, a, b) => !equal(run, a, b),
  "<": (run, a, b) => order(run, a, b) < 0,
  "<=": (run, a, b) => order(run, a, b) <= 0,
  ">": (run, a, b) => order(run, a, b) > 0,
  ">=": (run, a, b) => order(run, a, b) >= 0,
  in: (run, a, b) => contains(run, b, a),
  "not in": (run, a, b) => !contains(run, b, a),
};

/** `first < a <= b`: true where every one of them is. */
export class Compared implements Expression {
  constructor(
    private readonly first: Expression,
    private readonly rest: Rest,
  ) {}

  value(run: Run, scope: Scope): Value {
    let left = run.evaluate(this.first, scope);
    for (const [operator, node] of this.rest) {
      const right = run.evaluate(node, scope);
      if (!COMPARISONS[operator]?.(run, left, right)) return false;
      left = right;
    }
    return true;
  }
}

/** `first and a and b`, or the same with `or`: the value that decides. */
export class Logic implements Expression {
  constructor(
    private readonly first: Expression,
    private readonly rest: Rest,
  ) {}

  value(run: Run, scope: Scope): Value {
    let value = run.evaluate(this.first, scope);
    for (const [operator, node] of this.rest) {
      if (truth(value) === (operator === "or")) break;
      value = run.evaluate(node, scope);
    }
    return value;
  }
}

export class Choice implements Expression {
  constructor(
    private readonly test: Expression,
    private readonly yes: Expression,
    private readonly no: Expression | null,
  ) {}

  value(run: Run, scope: Scope): Value {
    if (truth(run.evaluate(this.test, scope))) return run.evaluate(this.yes, scope);
    return this.no ? run.evaluate(this.no, scope) : new Undefined("a condition has no else");
  }
}
