/** What may come next by the plainest of all ways: every way to read what came, node by node. */

import type { Grammar, Node } from "../../grammar/nodes.ts";
import type { Random } from "../engine/random.ts";

/** Nodes that are still to come, the next one first. */
type Way = readonly (Node | number)[];
type Ways = ReadonlyMap<string, Way>;

const CHARACTERS = Array.from('ab}"0é߿ࠀ日￿😀\u{10ffff}', (c) => c);

/** Whether bytes begin a text of a grammar, and whether they are one. */
export class Oracle {
  private readonly known = new Map<string, Ways>();

  constructor(private readonly grammar: Grammar) {}

  begins(bytes: readonly number[]): boolean {
    return this.after(bytes).size > 0;
  }

  isText(bytes: readonly number[]): boolean {
    return [...this.after(bytes).values()].some((way) => way.length === 0);
  }

  /** All ways to go on after bytes, each with a set of characters or a byte next, or at the end. */
  private after(bytes: readonly number[]): Ways {
    const key = bytes.join();
    const found = this.known.get(key);
    if (found) return found;
    const byte = bytes.at(-1);
    const ways: Way[] = [];
    if (byte === undefined) ways.push([{ kind: "rule", name: this.grammar.root }]);
    else {
      for (const [first, ...rest] of this.after(bytes.slice(0, -1)).values()) {
        if (first === byte) ways.push(rest);
      }
    }
    const open = this.opened(ways);
    this.known.set(key, open);
    return open;
  }

  private opened(ways: Way[]): Ways {
    const open = new Map<string, Way>();
    const seen = new Set<string>();
    for (let way = ways.pop(); way; way = ways.pop()) {
      const key = JSON.stringify(way);
      if (seen.has(key)) continue;
      seen.add(key);
      const [first, ...rest] = way;
      if (first === undefined || typeof first === "number") open.set(key, way);
      else ways.push(...this.expanded(first).map((nodes) => [...nodes, ...rest]));
    }
    return open;
  }

  private expanded(node: Node): Way[] {
    switch (node.kind) {
      case "literal":
        return [[...new TextEncoder().encode(node.text)]];
      case "chars":
        return CHARACTERS.filter((c) => {
          const code = c.codePointAt(0) ?? 0;
          return node.ranges.some(([first, last]) => first <= code && code <= last);
        }).map((c) => [...new TextEncoder().encode(c)]);
      case "sequence":
        return [node.items];
      case "choice":
        return node.items.map((item) => [item]);
      case "repeat": {
        const { item, least, most } = node;
        if (most === 0) return [[]];
        const rest: Node = {
          kind: "repeat",
          item,
          least: Math.max(0, least - 1),
          most: most === null ? null : most - 1,
        };
        return least === 0 ? [[], [item, rest]] : [[item, rest]];
      }
      case "rule":
        return [[this.grammar.rules.get(node.name) ?? node]];
    }
  }
}

/** A grammar at random, of the oracle's characters; it may be one that is refused. */
export function randomGrammar(rng: Random): Grammar {
  const names = ["r0", "r1", "r2", "r3"].slice(0, rng.whole(1, 4));
  return {
    root: "r0",
    rules: new Map(names.map((name) => [name, randomNode(rng, names, rng.whole(1, 3))])),
  };
}

function randomNode(rng: Random, names: readonly string[], depth: number): Node {
  const inner = () => randomNode(rng, names, depth - 1);
  const items = (most: number) => Array.from({ length: rng.whole(1, most) }, inner);
  switch (depth === 0 ? rng.pick([0, 0, 1, 1, 5]) : rng.whole(0, 5)) {
    case 0:
      return { kind: "literal", text: rng.pick(CHARACTERS) + rng.pick(["", ...CHARACTERS]) };
    case 1: {
      const chosen = new Set([rng.pick(CHARACTERS), rng.pick(CHARACTERS), rng.pick(CHARACTERS)]);
      const codes = Array.from(chosen, (c) => c.codePointAt(0) ?? 0).sort((a, b) => a - b);
      return { kind: "chars", ranges: codes.map((code) => [code, code]) };
    }
    case 2:
      return { kind: "sequence", items: rng.chance(0.1) ? [] : items(3) };
    case 3:
      return { kind: "choice", items: items(3) };
    case 4: {
      const least = rng.pick([0, 0, 1, 2, 5, 33]);
      const most = rng.pick([null, least, least + 1, least + 2, least + 40]);
      return { kind: "repeat", item: inner(), least, most };
    }
    default:
      return { kind: "rule", name: rng.pick(names) };
  }
}

/** Tokens of the oracle's characters, also of parts of them, some of them twice. */
export function randomTokens(rng: Random, count: number): (Uint8Array | null)[] {
  const bytes = [...new TextEncoder().encode(CHARACTERS.join(""))];
  const tokens: (Uint8Array | null)[] = [...new Set(bytes)].map((byte) => Uint8Array.of(byte));
  tokens.push(null, new Uint8Array(0));
  while (tokens.length < count) {
    const start = rng.whole(0, bytes.length - 1);
    const run = bytes.slice(start, start + rng.whole(1, 4));
    const text = new TextEncoder().encode(rng.text(CHARACTERS.join(""), 2));
    const same = new TextEncoder().encode(rng.pick(CHARACTERS).repeat(rng.whole(2, 9)));
    tokens.push(rng.pick([Uint8Array.from(run), text, same]));
  }
  return tokens;
}
