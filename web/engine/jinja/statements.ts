/** The statements of a template, as the parser builds them. */

import type { Given } from "./expressions.ts";
import { filtered } from "./filters.ts";
import { checkSettable } from "./functions.ts";
import {
  type Expression,
  type Flow,
  type Output,
  type Run,
  type Scope,
  type Statement,
  TemplateError,
  TURN_STEPS,
} from "./run.ts";
import {
  Arguments,
  Callable,
  itemsOf,
  kind,
  Loop,
  Marked,
  Namespace,
  textOf,
  truth,
  Undefined,
  type Value,
} from "./values.ts";

export class Text implements Statement {
  constructor(private readonly text: string) {}

  execute(_run: Run, _scope: Scope, out: Output): Flow {
    out.write(this.text);
    return "next";
  }
}

/** `{{ of }}`. */
export class Written implements Statement {
  constructor(private readonly of: Expression) {}

  execute(run: Run, scope: Scope, out: Output): Flow {
    out.write(textOf(run, run.evaluate(this.of, scope)));
    return "next";
  }
}

export type Branch = readonly [Expression, readonly Statement[]];

export class If implements Statement {
  constructor(
    private readonly branches: readonly Branch[],
    private readonly otherwise: readonly Statement[],
  ) {}

  execute(run: Run, scope: Scope, out: Output): Flow {
    for (const [test, body] of this.branches) {
      if (truth(run.evaluate(test, scope))) return run.execute(body, scope, out);
    }
    return run.execute(this.otherwise, scope, out);
  }
}

/** What is set: one name, several that share the items of a value, or a namespace's. */
export class Target {
  constructor(
    private readonly names: readonly string[],
    private readonly several = false,
    private readonly member: string | null = null,
  ) {}

  assign(run: Run, scope: Scope, value: Value): void {
    const [name = ""] = this.names;
    if (this.member !== null) {
      checkSettable(this.member);
      let inner: Scope | null = scope;
      while (inner && !inner.names.has(name)) inner = inner.parent;
      const space = inner?.names.get(name);
      if (!(space instanceof Namespace)) throw new TemplateError(`'${name}' is no namespace`);
      space.values.set(this.member, value);
    } else if (this.several) {
      const values = itemsOf(run, value);
      if (values.length !== this.names.length) {
        throw new TemplateError(`${values.length} values for ${this.names.length} names`);
      }
      for (const [i, one] of this.names.entries()) scope.names.set(one, values[i] ?? null);
    } else {
      scope.names.set(name, value);
    }
  }
}

export class For implements Statement {
  constructor(
    private readonly target: Target,
    private readonly items: Expression,
    private readonly condition: Expression | null,
    private readonly body: readonly Statement[],
    private readonly otherwise: readonly Statement[],
  ) {}

  execute(run: Run, scope: Scope, out: Output): Flow {
    let items = itemsOf(run, run.evaluate(this.items, scope));
    const { condition } = this;
    if (condition) items = items.filter((item) => this.wanted(run, scope, condition, item));
    const loop = new Loop(items);
    for (const [i, item] of items.entries()) {
      loop.index0 = i;
      run.spend(TURN_STEPS);
      const inner = run.inner(scope);
      inner.names.set("loop", loop);
      this.target.assign(run, inner, item);
      if (run.execute(this.body, inner, out) === "break") break;
    }
    return items.length > 0 ? "next" : run.execute(this.otherwise, run.inner(scope), out);
  }

  private wanted(run: Run, scope: Scope, condition: Expression, item: Value): boolean {
    run.spend(TURN_STEPS);
    const inner = run.inner(scope);
    this.target.assign(run, inner, item);
    return truth(run.evaluate(condition, inner));
  }
}

export class SetTo implements Statement {
  constructor(
    private readonly target: Target,
    private readonly to: Expression,
  ) {}

  execute(run: Run, scope: Scope): Flow {
    this.target.assign(run, scope, run.evaluate(this.to, scope));
    return "next";
  }
}

/** What a body writes, filtered: set as a value, or written where there is no target. */
export class Captured implements Statement {
  constructor(
    private readonly target: Target | null,
    private readonly filters: readonly (readonly [string, Given])[],
    private readonly body: readonly Statement[],
  ) {}

  execute(run: Run, scope: Scope, out: Output): Flow {
    let value: Value = run.captured(this.body, run.inner(scope));
    for (const [name, given] of this.filters) {
      value = filtered(run, name, value, given.arguments(run, scope));
    }
    if (this.target) this.target.assign(run, scope, value);
    else if (typeof value === "string" || value instanceof Marked) out.write(textOf(run, value));
    else throw new TemplateError(`a filtered block is text, not ${kind(value)}`);
    return "next";
  }
}

const UNSET = new Undefined("an argument is missing");

/** A function whose result is what its body writes; the defaults are of its last parameters. */
export class Macro implements Statement {
  constructor(
    private readonly name: string,
    private readonly parameters: readonly string[],
    private readonly defaults: readonly Expression[],
    private readonly body: readonly Statement[],
  ) {}

  execute(_: Run, scope: Scope): Flow {
    scope.names.set(this.name, this.callable(scope));
    return "next";
  }

  callable(scope: Scope): Callable {
    const unset = this.parameters.map((parameter) => [parameter, UNSET] as const);
    const required = this.parameters.length - this.defaults.length;
    return new Callable(this.name, (run, given) => {
      const inner = run.inner(scope);
      const named = new Map(given.named);
      inner.names.set("caller", named.get("caller") ?? new Undefined("'caller' is undefined"));
      named.delete("caller");
      const values: readonly Value[] = new Arguments(given.placed, named).bind(this.name, unset);
      for (const [i, parameter] of this.parameters.entries()) {
        let value = values[i] ?? null;
        const otherwise = this.defaults[i - required];
        if (value === UNSET && otherwise) value = run.evaluate(otherwise, inner);
        const unknown = value === UNSET && new Undefined(`'${parameter}' is undefined`);
        inner.names.set(parameter, unknown || value);
      }
      return run.captured(this.body, inner);
    });
  }
}

/** A call of a macro that is handed a body as `caller`; without a macro, the body alone. */
export class CallBlock implements Statement {
  constructor(
    private readonly callee: Expression | null,
    private readonly given: Given,
    private readonly caller: Macro,
  ) {}

  execute(run: Run, scope: Scope, out: Output): Flow {
    const caller = this.caller.callable(scope);
    if (!this.callee) {
      out.write(textOf(run, caller.call(run, new Arguments([], new Map()))));
      return "next";
    }
    const callee = run.evaluate(this.callee, scope);
    if (!(callee instanceof Callable)) throw new TemplateError("a call block calls no function");
    const { placed, named } = this.given.arguments(run, scope);
    const given = new Arguments(placed, new Map<string, Value>([...named, ["caller", caller]]));
    out.write(textOf(run, callee.call(run, given)));
    return "next";
  }
}

/** Names that are known in a body only. */
export class With implements Statement {
  constructor(
    private readonly values: readonly (readonly [Target, Expression])[],
    private readonly body: readonly Statement[],
  ) {}

  execute(run: Run, scope: Scope, out: Output): Flow {
    const inner = run.inner(scope);
    for (const [target, node] of this.values) {
      target.assign(run, inner, run.evaluate(node, scope));
    }
    return run.execute(this.body, inner, out);
  }
}

/** `{% break %}` and `{% continue %}`. */
export class Leave implements Statement {
  constructor(private readonly flow: Flow) {}

  execute(): Flow {
    return this.flow;
  }
}
