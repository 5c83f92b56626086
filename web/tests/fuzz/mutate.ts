/** Changes to JSON and to text that keep most of it, as tests/fuzz/mutate makes them in Python. */

import type { Random } from "../engine/random.ts";

const NUMBERS = [
  ...[0, 1, -1, 2, 3, 7, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 1000, 4096, 65535],
  ...[65536, 1e6, 1e9, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 64],
  ...[1e30, 0.5, -0, 1.5, 1e-320, 1e300],
];
const STRINGS = [
  ...[
    "",
    " ",
    "a",
    "é",
    "日本",
    "🙂",
    "\0",
    "\u001b]52;c;YQ==\u0007",
    "\u202e",
    "..",
    "../x",
    "a/b",
  ],
  ...["a\\b", "C:x", ".hidden", "bundle.json", "__proto__", "constructor", "toString", "length"],
  ...["null", "-1", "1e9", "{{ x }}", "$&", "\ud800", "\n", "<|im_end|>", "<s>", "▁", "Ġ"],
  ...["x".repeat(200), "a".repeat(5000), "(".repeat(3000), "[".repeat(3000), "a".repeat(200_000)],
];
const OTHERS: readonly unknown[] = [null, true, false, [], {}, [[]], [{}], { "": null }];
const JSON_WORDS = [
  ...['"', "{", "}", "[", "]", ",", ":", "null", "NaN", "1e999", "-0", "0x1", "\\u0000", "\ufeff"],
  ...["//", "'", "1.0", "00", '"a":1,"a":2,', "[".repeat(70), "[".repeat(100_000)],
  ...['{"a":'.repeat(30_000), "9".repeat(5000), '"\\ud800"', '"__proto__":{"a":1},'],
];
const MANY = [2, 3, 65, 257, 1000];
const MAX_LENGTH = 1 << 20;
const DESCEND = 0.8;

/** The value with one to three changes at random places; the value itself stays as it is. */
export function changed(rng: Random, value: unknown, strings: readonly string[] = []): unknown {
  let now = value;
  for (let left = rng.pick([1, 1, 1, 2, 3]); left > 0; left--) {
    const root = now;
    now = changedAt(rng, root, () => hostile(rng, root, strings));
  }
  return now;
}

/** The value as JSON; of one in ten the text is damaged, too. */
export function written(rng: Random, value: unknown): Uint8Array<ArrayBuffer> {
  const text = textOf(value);
  return new TextEncoder().encode(rng.chance(0.1) ? damaged(rng, text, JSON_WORDS) : text);
}

/** The value as JSON; null where strings have no room for that. */
function textOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch (cause) {
    if (cause instanceof RangeError) return "null";
    throw cause;
  }
}

/** The text with one to three changes; `words` are what its language is made of. */
export function damaged(rng: Random, text: string, words: readonly string[]): string {
  let now = text;
  for (let left = rng.pick([1, 1, 1, 2, 3]); left > 0; left--) {
    now = damagedOnce(rng, now, words).slice(0, MAX_LENGTH);
  }
  return now;
}

/** The bytes with some of them flipped, cut out or put in. */
export function flipped(rng: Random, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = [...data];
  for (let left = rng.pick([1, 1, 2, 3]); left > 0; left--) {
    const at = rng.whole(0, bytes.length - 1);
    if (rng.chance(0.6)) bytes[at] = (bytes[at] ?? 0) ^ (1 << rng.whole(0, 7));
    else bytes.splice(at, rng.whole(0, 8), ...(rng.chance(0.5) ? [rng.whole(0, 255)] : []));
  }
  return Uint8Array.from(bytes);
}

function damagedOnce(rng: Random, text: string, words: readonly string[]): string {
  const [a = 0, b = 0] = [rng.whole(0, text.length), rng.whole(0, text.length)].sort(
    (x, y) => x - y,
  );
  const short = Math.min(b, a + rng.pick([1, 2, 8, 40]));
  const [head, part, tail] = [text.slice(0, a), text.slice(a, short), text.slice(short)];
  const times = rng.pick([1, 2, 30, 300, 3000]);
  switch (rng.whole(0, 7)) {
    case 0:
      return head + tail;
    case 1:
      return head + text.slice(b);
    case 2:
      return head + rng.pick(words) + text.slice(a);
    case 3:
      return head + rng.pick(words) + tail;
    case 4:
      return head + part.repeat(Math.min(times, MAX_LENGTH / (text.length + 1))) + tail;
    case 5: {
      const [open, close] = [rng.pick(words), rng.pick(words)];
      const most = Math.min(times, Math.ceil(MAX_LENGTH / (open.length + close.length + 1)));
      return head + open.repeat(most) + part + close.repeat(most) + tail;
    }
    case 6:
      return head;
    default:
      return head + rng.pick(STRINGS) + tail;
  }
}

function hostile(rng: Random, root: unknown, strings: readonly string[]): unknown {
  switch (rng.whole(0, 8)) {
    case 0:
    case 1:
      return rng.pick(NUMBERS) * rng.pick([1, 1, -1]);
    case 2:
    case 3:
    case 4:
      return rng.pick([...STRINGS, ...strings, ...strings]);
    case 5:
    case 6:
      return rng.pick(OTHERS);
    case 7:
      return partOf(rng, root);
    default:
      return nested(rng, rng.pick([3, 60, 63, 64, 65, 200]));
  }
}

function nested(rng: Random, depth: number): unknown {
  let value: unknown = rng.pick([0, "a", null]);
  for (let i = 0; i < depth; i++) value = rng.chance(0.5) ? [value] : { a: value };
  return value;
}

function partOf(rng: Random, root: unknown): unknown {
  let value = root;
  for (;;) {
    const inside = typeof value === "object" && value !== null ? Object.values(value) : [];
    if (inside.length === 0 || !rng.chance(DESCEND)) return value;
    value = rng.pick(inside.map((item) => [item]))[0];
  }
}

function changedAt(rng: Random, value: unknown, other: () => unknown): unknown {
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0) {
    return near(rng, value, other);
  }
  if (Array.isArray(value)) {
    const items: unknown[] = [...value];
    const at = rng.whole(0, items.length - 1);
    if (rng.chance(DESCEND)) items[at] = changedAt(rng, items[at], other);
    else items.splice(at, 1, ...listed(rng, items[at], other));
    return items;
  }
  const table = new Map<string, unknown>(Object.entries(value));
  const key = rng.pick([...table.keys()]);
  if (rng.chance(DESCEND)) table.set(key, changedAt(rng, table.get(key), other));
  else rearrange(rng, table, key, other);
  // Unlike an assignment, this makes `__proto__` a key like any other.
  return Object.fromEntries(table);
}

function listed(rng: Random, item: unknown, other: () => unknown): unknown[] {
  switch (rng.whole(0, 3)) {
    case 0:
      return [];
    case 1:
      return [other()];
    case 2:
      return [item, other()];
    default:
      return Array.from({ length: rng.pick(MANY) }, () => item);
  }
}

function rearrange(
  rng: Random,
  table: Map<string, unknown>,
  key: string,
  other: () => unknown,
): void {
  switch (rng.whole(0, 4)) {
    case 0:
      table.delete(key);
      return;
    case 1:
      table.set(key, other());
      return;
    case 2:
      table.set(rng.pick(STRINGS), rng.chance(0.5) ? table.get(key) : other());
      return;
    case 3:
      table.set(key, table.get(rng.pick([...table.keys()])));
      return;
    default:
      for (let i = rng.pick(MANY); i > 0; i--) table.set(key.slice(0, 60) + i, table.get(key));
  }
}

function near(rng: Random, value: unknown, other: () => unknown): unknown {
  if (!rng.chance(0.4)) return other();
  if (typeof value === "boolean") return !value;
  if (typeof value === "number") {
    return rng.pick([value - 1, value + 1, -value, 2 * value, value + 64, value * 2 ** 32]);
  }
  if (typeof value === "string") {
    return rng.pick([`${value}x`, value.slice(0, -1), value.toUpperCase(), value + value]);
  }
  return other();
}
