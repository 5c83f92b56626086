/** What a template reads of a value: items, slices, and the members of Python's types by name. */

import { equal, keyOf } from "./compare.ts";
import { type Run, TemplateError } from "./run.ts";
import { TEXT_METHODS } from "./texts.ts";
import {
  type Arguments,
  Callable,
  type Dict,
  isDict,
  isList,
  kind,
  Loop,
  Namespace,
  REQUIRED,
  Tuple,
  Undefined,
  type Value,
  whole,
} from "./values.ts";

export type Method = (run: Run, base: Value, given: Arguments) => Value;

/** Members of Python's types that a template may not use: they change a value, or are not ours. */
const REFUSED: Readonly<Record<string, ReadonlySet<string>>> = {
  text: words(
    "casefold center encode expandtabs format_map isascii isdecimal isidentifier isnumeric " +
      "isprintable istitle ljust maketrans rindex rjust swapcase translate zfill",
  ),
  list: words("append clear copy extend insert pop remove reverse sort"),
  dict: words("clear copy fromkeys pop popitem setdefault update"),
};

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(" "));
}

/** `base.name`: a member of the type, or else an item. */
export function attribute(base: Value, name: string): Value {
  const found = member(base, name);
  const entry = found instanceof Undefined && isDict(base) ? base.get(name) : undefined;
  return entry === undefined ? found : entry;
}

/** `base[key]`: an item, or else a member of the type. */
export function item(base: Value, key: Value): Value {
  if (isDict(base)) {
    const known = isList(key) || isDict(key) ? null : keyOf(key);
    const entry = known === null ? undefined : base.get(known);
    if (entry !== undefined) return entry;
  } else if (typeof key === "number" || typeof key === "boolean") {
    const items = sequence(base);
    if (items) return items.at(Number(key)) ?? missing(base, key);
  }
  return typeof key === "string" ? member(base, key) : missing(base, key);
}

/** The items of a list or tuple, or the characters of a text; null for other values. */
function sequence(base: Value): readonly Value[] | null {
  if (typeof base === "string") return [...base];
  return isList(base) ? base : base instanceof Tuple ? base.items : null;
}

/** `base[start:stop:step]`. */
export function part(run: Run, base: Value, bounds: readonly Value[]): Value {
  const items = sequence(base);
  if (!items) throw new TemplateError(`a ${kind(base)} has no slices`);
  const [start, stop, by] = bounds.map((bound) =>
    bound === null ? null : whole(bound, "a slice"),
  );
  const step = by ?? 1;
  if (step === 0) throw new TemplateError("the step of a slice is not 0");
  const [low, high] = step > 0 ? [0, items.length] : [-1, items.length - 1];
  const clamp = (bound: number) =>
    Math.min(Math.max(bound < 0 ? bound + items.length : bound, low), high);
  const from = start == null ? (step > 0 ? low : high) : clamp(start);
  const to = stop == null ? (step > 0 ? high : low) : clamp(stop);
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (typeof base === "string") run.make(count);
  else run.items(count);
  const cut = Array.from({ length: count }, (_, i) => items[from + i * step] ?? null);
  if (typeof base === "string") return cut.join("");
  return base instanceof Tuple ? new Tuple(cut) : cut;
}

function member(base: Value, name: string): Value {
  if (base instanceof Undefined) throw new TemplateError(base.said);
  if (base instanceof Namespace) return base.values.get(name) ?? nullOf(base, name);
  if (base instanceof Loop) {
    const read = Object.hasOwn(LOOP, name) ? LOOP[name] : undefined;
    if (read) return read(base);
  }
  if (name.startsWith("__")) throw new TemplateError(`'${name.slice(0, 40)}' cannot be read`);
  const of = kind(base);
  const method = METHODS[of]?.get(name);
  if (method) return new Callable(name, (run, given) => method(run, base, given));
  if (REFUSED[of]?.has(name)) throw new TemplateError(`${name} of a ${of} cannot be used`);
  return missing(base, name);
}

function nullOf(base: Namespace, name: string): Value {
  return base.values.has(name) ? null : missing(base, name);
}

function missing(base: Value, name: Value): Undefined {
  if (base instanceof Undefined) throw new TemplateError(base.said);
  const known = typeof name === "string" || typeof name === "number";
  const shown = known ? `'${String(name).slice(0, 40)}'` : `item of such a ${kind(name)}`;
  return new Undefined(`a ${kind(base)} has no ${shown}`);
}

const LOOP: Readonly<Record<string, (loop: Loop) => Value>> = {
  index: (loop) => loop.index0 + 1,
  index0: (loop) => loop.index0,
  revindex: (loop) => loop.items.length - loop.index0,
  revindex0: (loop) => loop.items.length - loop.index0 - 1,
  first: (loop) => loop.index0 === 0,
  last: (loop) => loop.index0 === loop.items.length - 1,
  length: (loop) => loop.items.length,
  depth: () => 1,
  depth0: () => 0,
  previtem: ({ items, index0 }) => besides(items[index0 - 1], "previous"),
  nextitem: ({ items, index0 }) => besides(items[index0 + 1], "next"),
  cycle: (loop) => new Callable("cycle", (_, given) => cycled(loop, given)),
  changed: (loop) => new Callable("changed", (run, given) => changed(run, loop, given)),
};

function besides(value: Value | undefined, which: string): Value {
  return value === undefined ? new Undefined(`there is no ${which} item`) : value;
}

function cycled(loop: Loop, { placed, named }: Arguments): Value {
  const value = placed[loop.index0 % placed.length];
  if (value === undefined || named.size > 0) throw new TemplateError("cycle takes values");
  return value;
}

function changed(run: Run, loop: Loop, { placed }: Arguments): Value {
  const same = loop.changed !== null && equal(run, loop.changed, placed);
  loop.changed = placed;
  return !same;
}

/** The keys and values of a dict, as tuples. */
export function pairsOf(run: Run, base: Value): readonly Tuple[] {
  const found = entries(run, base);
  run.items(2 * found.size);
  return [...found].map(([key, value]) => new Tuple([key, value]));
}

function entries(run: Run, base: Value): Dict {
  if (!isDict(base)) throw new TemplateError(`a ${kind(base)} has no keys and values`);
  run.items(base.size);
  return base;
}

const DICTS: Readonly<Record<string, Method>> = {
  get: (_, base, given) => {
    const [wanted, otherwise] = given.bind("get", [
      ["key", REQUIRED],
      ["default", null],
    ]);
    const key = keyOf(wanted);
    const entry = isDict(base) && key !== null ? base.get(key) : undefined;
    return entry === undefined ? otherwise : entry;
  },
  items: (run, base, given) => {
    given.bind("items", []);
    return pairsOf(run, base);
  },
  keys: (run, base, given) => {
    given.bind("keys", []);
    return [...entries(run, base).keys()];
  },
  values: (run, base, given) => {
    given.bind("values", []);
    return [...entries(run, base).values()];
  },
};

const LISTS: Readonly<Record<string, Method>> = {
  count: (run, base, given) => {
    const [wanted] = given.bind("count", [["value", REQUIRED]]);
    return (sequence(base) ?? []).filter((value) => equal(run, value, wanted)).length;
  },
  index: (run, base, given) => {
    const [wanted] = given.bind("index", [["value", REQUIRED]]);
    const at = (sequence(base) ?? []).findIndex((value) => equal(run, value, wanted));
    if (at < 0) throw new TemplateError("index finds no such item");
    return at;
  },
};

const METHODS: Readonly<Record<string, ReadonlyMap<string, Method>>> = {
  text: TEXT_METHODS,
  list: new Map(Object.entries(LISTS)),
  tuple: new Map(Object.entries(LISTS)),
  dict: new Map(Object.entries(DICTS)),
};
