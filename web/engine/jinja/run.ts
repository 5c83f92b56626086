/**
 * One rendering of a template: what it may still do, and how its nodes are evaluated.
 *
 * A template is foreign code, so everything that it does is charged before it is done: steps for time,
 * room for memory. The limits and charges are those of `edgewise_runtime/text/jinja/run.py`, so that both
 * languages stop the same templates; characters are counted here as UTF-16 has them.
 */

import type { Value } from "./values.ts";

/** Nodes evaluated, items gone through, and pieces of text looked at. */
const MAX_STEPS = 1_000_000;
/** Evaluations within one another. */
const MAX_DEPTH = 250;
/** Characters of the texts that are made, with what they and items cost besides. */
const MAX_ROOM = 16 << 20;
/** Room that every character of the conversation adds. */
const ROOM_PER_CHARACTER = 4;
/** Characters that may be written, and twice those of the conversation. */
const MAX_WRITTEN = 4 << 20;
export const OBJECT_ROOM = 32;
const ITEM_ROOM = 16;
/** What a turn of a loop costs, besides what is done in it. */
export const TURN_STEPS = 4;
/** Of so many characters, as a power of two, a step is charged for looking at them. */
const LOOKED_AT = 6;
const NEEDLE = 8;

/** What is wrong with a template or what it does, in words. */
export class TemplateError extends Error {}

/** A template asks for more than it may have. */
export class TemplateLimitError extends TemplateError {}

/** How a statement ends. */
export type Flow = "next" | "break" | "continue";

/** Names and their values, and where other names are looked up. */
export class Scope {
  constructor(
    readonly parent: Scope | null = null,
    readonly names: Map<string, Value> = new Map(),
  ) {}
}

export interface Expression {
  value(run: Run, scope: Scope): Value;
}

export interface Statement {
  execute(run: Run, scope: Scope, out: Output): Flow;
}

/** The text that is being written. */
export class Output {
  private readonly pieces: string[] = [];
  private left: number;

  constructor(limit: number) {
    this.left = limit;
  }

  write(text: string): void {
    this.left -= text.length;
    if (this.left < 0) throw new TemplateLimitError("it writes more than any prompt needs");
    this.pieces.push(text);
  }

  text(): string {
    return this.pieces.join("");
  }
}

/** The state of one rendering. */
export class Run {
  readonly now: Date;
  readonly writable: number;
  private steps = MAX_STEPS;
  private room: number;
  private depth = 0;

  /**
   * @param now what `strftime_now` reads.
   * @param given characters of the conversation, by which the limits grow.
   */
  constructor(now: Date, given: number) {
    this.now = now;
    this.writable = MAX_WRITTEN + 2 * given;
    this.room = MAX_ROOM + ROOM_PER_CHARACTER * given;
  }

  evaluate(node: Expression, scope: Scope): Value {
    this.enter();
    const value = node.value(this, scope);
    this.depth -= 1; // whatever is thrown ends the run
    return value;
  }

  execute(body: readonly Statement[], scope: Scope, out: Output): Flow {
    this.enter();
    let flow: Flow = "next";
    for (const statement of body) {
      this.spend(1);
      flow = statement.execute(this, scope, out);
      if (flow !== "next") break;
    }
    this.depth -= 1;
    return flow;
  }

  /** What statements write. */
  captured(body: readonly Statement[], scope: Scope): string {
    const out = new Output(this.writable);
    this.execute(body, scope, out);
    return this.made(out.text());
  }

  inner(scope: Scope): Scope {
    this.make(0);
    return new Scope(scope);
  }

  spend(steps: number): void {
    this.steps -= steps;
    if (this.steps < 0) throw tooLong();
  }

  /** Charge a text that is about to be made. */
  make(characters: number): void {
    this.room -= characters + OBJECT_ROOM;
    if (this.room < 0) throw new TemplateLimitError("it makes more text than any prompt needs");
  }

  /** Charge a text that is at most a few times as long as those it was made of. */
  made(text: string): string {
    this.make(text.length);
    return text;
  }

  /** Charge a list that is about to be made, or to be gone through. */
  items(count: number): void {
    this.spend(count);
    this.make(ITEM_ROOM * count);
  }

  /** Charge looking at a text, for another one. */
  look(characters: number, needle = 0): void {
    this.spend(1 + (characters >> LOOKED_AT) * (1 + (needle >> NEEDLE)));
  }

  private enter(): void {
    this.steps -= 1;
    this.depth += 1;
    if (this.steps < 0) throw tooLong();
    if (this.depth > MAX_DEPTH) {
      throw new TemplateLimitError(`it nests more than ${MAX_DEPTH} deep`);
    }
  }
}

function tooLong(): TemplateLimitError {
  return new TemplateLimitError(`it takes more than ${MAX_STEPS.toLocaleString("en")} steps`);
}
