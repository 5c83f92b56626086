/**
 * Jinja for chat templates, which are foreign code: what one can compute and write is bounded.
 *
 * The interpreter is @huggingface/jinja's. Every node that it evaluates is counted, every string it
 * makes is measured, and a value that is about to be written out is measured before. Stripping and
 * joining by `~` are done here as Python does them (`jinja-text.ts`). What differs from Python is that an
 * iteration that `break` or `continue` ends writes nothing, that lengths count UTF-16 units, that `~` binds
 * no tighter than `+`, and that `dict`, `e`, the multiplication of text and lists beside a `~` are refused.
 */

import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { checkLoops } from "./jinja-loops.ts";
import { joined, STRIPS, type Strip, strip } from "./jinja-text.ts";

/** Characters that a template may write, and that any of its strings may have. */
const MAX_CHARACTERS = 16 << 20;
/** Nodes of a template that may be evaluated: some seconds. */
const MAX_STEPS = 4_000_000;
/** What going through an item of a loop costs, besides what the loop does with it. */
const STEPS_PER_ITEM = 8;
/** Items of a value that may be written out, everything nested counted. */
const MAX_ITEMS = 1 << 20;
/** As in Jinja's own sandbox. */
const MAX_RANGE = 100_000;

type Program = ReturnType<typeof parse>;
type Node = Parameters<Interpreter["evaluate"]>[0];
type Value = ReturnType<Interpreter["evaluate"]>;

/** Thrown where a template asks for more than it may have. */
export class TemplateLimit extends Error {}

export interface Compiled {
  readonly program: Program;
  /** Nodes whose value is written out or combined. */
  readonly shown: ReadonlySet<unknown>;
  /** Nodes of whose value a member is read. */
  readonly reached: ReadonlySet<unknown>;
  /** Nodes whose items are gone through. */
  readonly looped: ReadonlySet<unknown>;
}

/** @throws Error for what is not a template, or none that would be rendered as Python does. */
export function compileTemplate(source: string): Compiled {
  const program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
  checkLoops(program);
  const sets = { shown: new Set(), reached: new Set(), looped: new Set() };
  collect(program, sets);
  return { program, ...sets };
}

/**
 * The text that a template writes.
 *
 * @param variables plain JSON values.
 * @throws TemplateLimit, or whatever the template makes the interpreter throw.
 */
export function renderTemplate(
  compiled: Compiled,
  variables: ReadonlyMap<string, unknown>,
  now: () => Date,
): string {
  const globals = new Environment();
  const given = { true: true, True: true, false: false, False: false, none: null, None: null };
  for (const [name, value] of Object.entries(given)) globals.set(name, value);
  globals.set("range", range);
  globals.set("strftime_now", (format: unknown) => formatTime(now(), String(format)));
  globals.set("raise_exception", (message: unknown) => {
    throw new Error(String(message));
  });
  const environment = new Environment(globals);
  for (const [name, value] of variables) environment.set(name, value);
  const { value } = new BoundedInterpreter(compiled, environment).run(compiled.program);
  if (typeof value !== "string") throw new TypeError("it does not write text");
  return value;
}

class BoundedInterpreter extends Interpreter {
  private readonly compiled: Compiled;
  private steps = 0;

  constructor(compiled: Compiled, environment: Environment) {
    super(environment);
    this.compiled = compiled;
  }

  override evaluate(node: Node, environment: Environment): Value {
    this.steps += 1;
    if (this.steps > MAX_STEPS) throw new TemplateLimit("it takes too long");
    const value =
      this.stripped(node, environment) ??
      this.concatenated(node, environment) ??
      super.evaluate(node, environment);
    if (typeof value?.value === "string" && value.value.length > MAX_CHARACTERS) tooLong();
    if (this.compiled.looped.has(node)) {
      // As in Python, what is undefined has no items.
      if (value?.type === "UndefinedValue") return super.evaluate(NO_ITEMS, environment);
      this.steps += STEPS_PER_ITEM * itemsOf(value);
    }
    if (this.compiled.shown.has(node)) measure(value);
    if (value?.type === "UndefinedValue" && this.compiled.reached.has(node)) {
      throw new Error("what is undefined has no members");
    }
    return value;
  }

  /** The value of `text.strip(characters)` and `text | trim`; undefined for other nodes. */
  private stripped(node: Node, environment: Environment): Value | undefined {
    const call = stripOf(node);
    if (!call) return undefined;
    const text = this.evaluate(call.text, environment).value;
    const [first] = call.args;
    const characters = first && this.evaluate(first, environment).value;
    const absent = text === undefined && call.strip === strip;
    if ((typeof text !== "string" && !absent) || call.args.length > 1) {
      throw new Error("only text can be stripped, of one set of characters");
    }
    const given = typeof characters === "string" ? characters : undefined;
    return super.evaluate(textNode(call.strip(text ?? "", given)), environment);
  }

  /** The value of `left ~ right`; undefined for other nodes. */
  private concatenated(node: Node, environment: Environment): Value | undefined {
    const sides = sidesOf(node);
    const texts = sides?.map((side) => joined(this.evaluate(side, environment)));
    return texts && super.evaluate(textNode(texts.join("")), environment);
  }
}

interface StripCall {
  readonly text: Node;
  readonly args: readonly Node[];
  readonly strip: Strip;
}

/** What of a node is a call of a strip method, or the filter `trim`. */
function stripOf(node: unknown): StripCall | null {
  if (!isNode(node)) return null;
  if (node.type === "FilterExpression") {
    const { filter, operand } = node;
    const called = isNode(filter) && filter.type === "CallExpression";
    const name = called ? filter.callee : filter;
    if (!isNode(name) || name.value !== "trim" || !isNode(operand)) return null;
    return { text: operand, args: called ? nodes(filter.args) : [], strip };
  }
  if (node.type !== "CallExpression" || !isNode(node.callee)) return null;
  const { callee } = node;
  const { object, property } = callee;
  if (callee.type !== "MemberExpression" || callee.computed === true) return null;
  if (!isNode(property) || typeof property.value !== "string" || !isNode(object)) return null;
  const method = Object.hasOwn(STRIPS, property.value) ? STRIPS[property.value] : undefined;
  return method ? { text: object, args: nodes(node.args), strip: method } : null;
}

/** What `~` joins; null for another node. */
function sidesOf(node: unknown): readonly Node[] | null {
  if (!isNode(node) || node.type !== "BinaryExpression") return null;
  const { operator, left, right } = node;
  const joins = typeof operator === "object" && operator !== null && "value" in operator;
  return joins && operator.value === "~" ? nodes([left, right]) : null;
}

interface AnyNode {
  readonly type: string;
  readonly [field: string]: unknown;
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === "object" && value !== null && "type" in value;
}

function nodes(value: unknown): Node[] {
  return Array.isArray(value) ? value.filter(isNode) : [];
}

const NO_ITEMS: AnyNode = { type: "ArrayLiteral", value: [] };

function textNode(value: string): AnyNode {
  return { type: "StringLiteral", value };
}

type Sets = Readonly<Record<"shown" | "reached" | "looped", Set<unknown>>>;

/** Statements of blocks, operands of what may join or convert them; what is looked into. */
function collect(value: unknown, sets: Sets): void {
  if (Array.isArray(value) || value instanceof Map) {
    for (const item of value) collect(item, sets);
    return;
  }
  if (!isNode(value)) return;
  const { body, defaultBlock, alternate, operand, left, right } = value;
  for (const block of [body, defaultBlock, alternate]) {
    for (const statement of Array.isArray(block) ? block : []) sets.shown.add(statement);
  }
  for (const part of [operand, left, right]) if (isNode(part)) sets.shown.add(part);
  if (value.type === "For") {
    const { iterable } = value;
    sets.looped.add(iterable);
    // Of a loop with a condition, which is not evaluated as a whole.
    if (isNode(iterable) && isNode(iterable.lhs)) sets.looped.add(iterable.lhs);
  }
  if (value.type === "MemberExpression") sets.reached.add(value.object);
  for (const child of Object.values(value)) collect(child, sets);
}

function itemsOf(value: unknown): number {
  const items: unknown = isNode(value) ? value.value : undefined;
  if (typeof items === "string" || Array.isArray(items)) return items.length;
  return items instanceof Map ? items.size : 0;
}

/** Counts what a value holds, as often as it would be written. */
function measure(root: unknown): void {
  let items = 0;
  let characters = 0;
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    items += 1;
    if (items > MAX_ITEMS) tooLong();
    if (typeof value === "string") characters += value.length;
    else if (Array.isArray(value)) open.push(...value);
    else if (value instanceof Map) for (const pair of value) open.push(...pair);
    else if (isNode(value)) open.push(value.value);
    if (characters > MAX_CHARACTERS || open.length > MAX_ITEMS) tooLong();
  }
}

function tooLong(): never {
  throw new TemplateLimit(`it wrote more than ${MAX_CHARACTERS} characters`);
}

function range(start: unknown, stop?: unknown, step: unknown = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const whole = [from, to, step].every(Number.isInteger);
  if (!whole || step === 0) throw new Error("range() takes whole numbers and a step that is not 0");
  const length = Math.max(0, Math.ceil((Number(to) - Number(from)) / Number(step)));
  if (length > MAX_RANGE)
    throw new Error(
      `Range too big. The sandbox blocks ranges larger than MAX_RANGE (${MAX_RANGE}).`,
    );
  return Array.from({ length }, (_, i) => Number(from) + i * Number(step));
}

const MONTHS =
  "January February March April May June July August September October November December".split(
    " ",
  );
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");

const TIMES: Readonly<Record<string, (time: Date) => string>> = {
  Y: (time) => String(time.getFullYear()),
  y: (time) => two(time.getFullYear() % 100),
  m: (time) => two(time.getMonth() + 1),
  B: (time) => MONTHS[time.getMonth()] ?? "",
  b: (time) => (MONTHS[time.getMonth()] ?? "").slice(0, 3),
  d: (time) => two(time.getDate()),
  A: (time) => DAYS[time.getDay()] ?? "",
  a: (time) => (DAYS[time.getDay()] ?? "").slice(0, 3),
  H: (time) => two(time.getHours()),
  I: (time) => two(time.getHours() % 12 || 12),
  p: (time) => (time.getHours() < 12 ? "AM" : "PM"),
  M: (time) => two(time.getMinutes()),
  S: (time) => two(time.getSeconds()),
  "%": () => "%",
};

/** As Python's strftime writes it where no language is set. */
function formatTime(time: Date, format: string): string {
  return format.replace(/%(.)/gs, (token, name: string) =>
    Object.hasOwn(TIMES, name) ? (TIMES[name]?.(time) ?? token) : token,
  );
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
