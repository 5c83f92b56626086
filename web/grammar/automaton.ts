/**
 * A grammar as an automaton over bytes, in one array of numbers.
 *
 * A state is its place in the array: its kind, and what belongs to it.
 *
 *     END                                  a rule, or the body of a repetition, has ended
 *     BYTES   n, n × (first, last, to)     a byte of a range leads on
 *     SPLIT   n, n × to                    any of these
 *     CALL    start, back                  a rule, and where it goes on after it
 *     REPEAT  body, least, most, exit      a body so many times, and where it goes on after them
 *
 * Small repetitions are written out; the others are counted where the automaton runs.
 */

import { EdgewiseError } from "../errors.ts";
import { emptyRules, endlessRule, leftRecursiveRule, mayBeEmpty } from "./endings.ts";
import type { Grammar, Node } from "./nodes.ts";
import { branchesOf, Identities } from "./prefixes.ts";
import type { Pair, Ranges } from "./ranges.ts";
import { bytesOf, utf8Sequences } from "./utf8.ts";

export const END = 0;
export const BYTES = 1;
export const SPLIT = 2;
export const CALL = 3;
export const REPEAT = 4;
/** A repetition's `most` where it has no end. */
export const ENDLESS = 2 ** 31 - 1;

/** Nodes of a grammar. */
const MAX_NODES = 500_000;
/** Nodes within one another. */
const MAX_DEPTH = 300;
/** States of an automaton. */
const MAX_STATES = 1 << 20;
/** States of a repetition that is written out. */
const MAX_UNROLLED = 32;

export interface Automaton {
  readonly code: Int32Array;
  readonly start: number;
  /** The class of each byte: no state tells two bytes of a class apart. */
  readonly classes: Uint8Array;
  /** A byte of each class. */
  readonly samples: Uint8Array;
  /** States before this one are of free text. */
  readonly free: number;
}

/** What texts of a grammar may stand in. */
export interface Around {
  /** Where bytes lead in free text (`freeText`). */
  readonly table: readonly Int32Array[];
  /** What comes after a text of the grammar. */
  readonly after: "free" | "end";
}

/**
 * The automaton that takes the texts of a grammar, written in UTF-8.
 *
 * @param around free text that such a text comes in; null for the text alone.
 * @throws EdgewiseError `constraint.too_large`; `input.grammar` for rules that are missing, that no
 *   text ends, or that begin with themselves, and for what takes no text.
 */
export function automatonOf(grammar: Grammar, around: Around | null = null): Automaton {
  check(grammar);
  return new Builder(grammar).build(around);
}

class Builder {
  private readonly code: number[] = [END];
  private states = 1;
  private begun = END;
  private readonly edges = new Uint8Array(257);
  private readonly identities = new Identities();
  private readonly empty: ReadonlySet<string>;
  /** Where rules begin that are built, and those that are used: places that want it. */
  private readonly starts = new Map<string, number>();
  private readonly calls = new Map<string, number[]>();

  constructor(private readonly grammar: Grammar) {
    this.empty = emptyRules(grammar.rules);
  }

  build(around: Around | null): Automaton {
    const { rules, root } = this.grammar;
    this.calls.set(root, []);
    const free = around ? this.around(around) : END;
    // A Map's iteration comes to what is added meanwhile.
    for (const name of this.calls.keys()) {
      this.starts.set(name, this.node(ruleOf(rules, name), END));
    }
    for (const [name, places] of this.calls) {
      for (const place of places) this.code[place] = this.starts.get(name) ?? END;
    }
    const classes = new Uint8Array(256);
    const samples: number[] = [];
    for (let byte = 0; byte < 256; byte++) {
      if (byte === 0 || this.edges[byte]) samples.push(byte);
      classes[byte] = samples.length - 1;
    }
    return {
      code: Int32Array.from(this.code),
      start: around ? this.begun : (this.starts.get(root) ?? END),
      classes,
      samples: Uint8Array.from(samples),
      free,
    };
  }

  /** Free text, in which the root comes after a trigger; where it ends. */
  private around({ table, after }: Around): number {
    const places = table.map(() => this.emit([SPLIT, 2, END, END]));
    const [start = END] = places;
    const call = this.call(this.grammar.root, after === "free" ? start : END);
    for (const [i, place] of places.entries()) {
      const edges: [number, number, number][] = [];
      for (const [byte, next] of table[i]?.entries() ?? []) {
        const to = places[next] ?? call;
        const last = edges.at(-1);
        if (last?.[1] === byte - 1 && last[2] === to) last[1] = byte;
        else edges.push([byte, byte, to]);
      }
      this.code[place + 2] = this.bytes(edges);
    }
    this.begun = start;
    return this.code.length;
  }

  private emit(words: readonly number[]): number {
    this.states += 1;
    if (this.states > MAX_STATES) throw tooLarge("states", MAX_STATES);
    const at = this.code.length;
    for (const word of words) this.code.push(word);
    return at;
  }

  private bytes(edges: readonly (readonly [number, number, number])[]): number {
    for (const [first, last] of edges) {
      this.edges[first] = 1;
      this.edges[last + 1] = 1;
    }
    return this.emit([BYTES, edges.length, ...edges.flat()]);
  }

  private split(targets: readonly number[]): number {
    const [only = END] = targets;
    return targets.length === 1 ? only : this.emit([SPLIT, targets.length, ...targets]);
  }

  /** Where a node begins that goes on at `next`. */
  private node(node: Node, next: number): number {
    switch (node.kind) {
      case "literal":
        return bytesOf(node.text).reduceRight((to, byte) => this.bytes([[byte, byte, to]]), next);
      case "chars":
        return this.chars(node.ranges, next);
      case "sequence":
        return node.items.reduceRight((to, item) => this.node(item, to), next);
      case "choice":
        return this.choice(node.items, next);
      case "repeat":
        return this.repeat(node.item, node.least, node.most, next);
      case "rule":
        return this.call(node.name, next);
    }
  }

  private chars(ranges: Ranges, next: number): number {
    const made = new Map<string, number>();
    const after = (sequences: readonly (readonly Pair[])[]): number => {
      const key = sequences.join(";");
      const found = key ? made.get(key) : next;
      if (found !== undefined) return found;
      const tails = new Map<string, (readonly Pair[])[]>();
      for (const [pair, ...tail] of sequences) {
        const same = tails.get(String(pair)) ?? [];
        tails.set(String(pair), same);
        same.push(tail);
      }
      const state = this.bytes(
        [...tails].map(([pair, rest]) => {
          const [first = 0, last = 0] = pair.split(",").map(Number);
          return [first, last, after(rest)];
        }),
      );
      made.set(key, state);
      return state;
    };
    return after(utf8Sequences(ranges));
  }

  private choice(items: readonly Node[], next: number): number {
    const branches = branchesOf(items, this.identities);
    const built = new Map<unknown, number>();
    let state = next;
    for (const branch of branches.toReversed()) {
      const targets: number[] = [];
      const edges: [number, number, number][] = [];
      for (const { atom, branch: below } of branch.next.values()) {
        const to = built.get(below) ?? next;
        if (typeof atom === "number") edges.push([atom, atom, to]);
        else targets.push(this.node(atom, to));
      }
      if (edges.length > 0) targets.unshift(this.bytes(edges));
      if (branch.ends) targets.push(next);
      state = this.split(targets);
      built.set(branch, state);
    }
    return state;
  }

  private call(name: string, next: number): number {
    const at = this.emit([CALL, END, next]);
    const places = this.calls.get(name) ?? [];
    this.calls.set(name, places);
    places.push(at + 1);
    return at;
  }

  private repeat(item: Node, lower: number, most: number | null, next: number): number {
    const least = mayBeEmpty(item, this.empty) ? 0 : lower;
    if (most === 0) return next;
    if (weight(item) * (most ?? least) > MAX_UNROLLED) {
      return this.emit([REPEAT, this.node(item, END), least, most ?? ENDLESS, next]);
    }
    let state = next;
    if (most === null) {
      state = this.emit([SPLIT, 2, END, next]);
      const body = this.node(item, state);
      this.code[state + 2] = body;
      if (least > 0) state = body;
    }
    const written = most ?? Math.max(0, least - 1);
    for (let i = written; i > 0; i--) {
      const body = this.node(item, state);
      state = i > least ? this.split([body, next]) : body;
    }
    return state;
  }
}

/** About how many states a node takes once it is written out. */
function weight(node: Node): number {
  switch (node.kind) {
    case "literal":
      return Math.max(1, node.text.length);
    case "sequence":
    case "choice":
      return node.items.reduce((sum, item) => sum + weight(item), 1);
    case "repeat":
      return weight(node.item) * Math.max(1, node.least, node.most ?? 0);
    default:
      return 1;
  }
}

function ruleOf(rules: ReadonlyMap<string, Node>, name: string): Node {
  const node = rules.get(name);
  if (node) return node;
  throw wrong(`There is no rule ${name.slice(0, 80)}`);
}

function check({ rules, root }: Grammar): void {
  ruleOf(rules, root);
  let count = 0;
  const left: [Node, number][] = [...rules.values()].map((node) => [node, 1]);
  for (let next = left.pop(); next; next = left.pop()) {
    const [node, depth] = next;
    count += 1;
    if (count > MAX_NODES) throw tooLarge("parts", MAX_NODES);
    if (depth > MAX_DEPTH) throw tooLarge("parts within one another", MAX_DEPTH);
    if (node.kind === "rule") ruleOf(rules, node.name);
    if (node.kind === "repeat") left.push([node.item, depth + 1]);
    if (node.kind === "literal" && /\p{Surrogate}/u.test(node.text)) {
      throw wrong("There is a text that UTF-8 cannot hold");
    }
    if (node.kind === "chars" && node.ranges.length === 0) throw wrong("A set has no character");
    if (node.kind === "choice" || node.kind === "sequence") {
      if (node.kind === "choice" && node.items.length === 0) throw wrong("A choice has no item");
      for (const item of node.items) left.push([item, depth + 1]);
    }
  }
  const endless = endlessRule(rules);
  if (endless !== null) throw wrong(`The rule ${endless.slice(0, 80)} has no text that ends`);
  const begins = leftRecursiveRule(rules);
  if (begins !== null) throw wrong(`The rule ${begins.slice(0, 80)} may begin with itself`);
}

function wrong(what: string): EdgewiseError {
  return new EdgewiseError("input.grammar", `${what}, in a grammar.`);
}

function tooLarge(what: string, most: number): EdgewiseError {
  return new EdgewiseError(
    "constraint.too_large",
    `A grammar has more than ${most} ${what}.`,
    "Ask for less at once: fewer alternatives, shorter lists of values.",
  );
}
