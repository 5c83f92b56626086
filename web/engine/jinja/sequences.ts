/** Jinja's filters that go through the items of a value. */

import { add } from "./arithmetic.ts";
import { check } from "./checks.ts";
import { equal, order } from "./compare.ts";
import { item as itemOf, pairsOf } from "./members.ts";
import { type Run, TemplateError } from "./run.ts";
import {
  Arguments,
  isDict,
  isList,
  itemsOf,
  kind,
  Marked,
  plainText,
  Stream,
  truth,
  Undefined,
  type Value,
  whole,
} from "./values.ts";

export type Filter = (run: Run, value: Value, given: Arguments) => Value;

function first(run: Run, value: Value, given: Arguments): Value {
  given.bind("first", []);
  const items = typeof value === "string" ? [...value.slice(0, 2)] : itemsOf(run, value);
  return items[0] === undefined ? new Undefined("there is no first item") : items[0];
}

function last(run: Run, value: Value, given: Arguments): Value {
  given.bind("last", []);
  if (value instanceof Stream) throw new TemplateError("a stream has no last item");
  const items = typeof value === "string" ? [...value.slice(-2)] : itemsOf(run, value);
  const found = items.at(-1);
  return found === undefined ? new Undefined("there is no last item") : found;
}

function list(run: Run, value: Value, given: Arguments): Value {
  given.bind("list", []);
  return itemsOf(run, value);
}

function reverse(run: Run, value: Value, given: Arguments): Value {
  given.bind("reverse", []);
  if (typeof value === "string") {
    run.make(value.length);
    return [...value].reverse().join("");
  }
  const items = itemsOf(run, value);
  run.items(items.length);
  return new Stream([...items].reverse());
}

function pairs(run: Run, value: Value, given: Arguments): Value {
  given.bind("items", []);
  return new Stream(value instanceof Undefined ? [] : pairsOf(run, value));
}

function sum(run: Run, value: Value, given: Arguments): Value {
  const [path, start] = given.bind("sum", [
    ["attribute", null],
    ["start", 0],
  ]);
  if (typeof start === "string" || start instanceof Marked) {
    throw new TemplateError("sum adds no text");
  }
  return lookedUp(run, itemsOf(run, value), path).reduce(
    (total, item) => add(run, total, item),
    start,
  );
}

function sort(run: Run, value: Value, given: Arguments): Value {
  const [down, cased, path] = given.bind("sort", [
    ["reverse", false],
    ["case_sensitive", false],
    ["attribute", null],
  ]);
  if (typeof path === "string" && path.includes(",")) {
    throw new TemplateError("sort takes one attribute");
  }
  const items = itemsOf(run, value);
  const keys = sortKeys(run, lookedUp(run, items, path), truth(cased));
  return sorted(run, items, keys, truth(down));
}

function sortPairs(run: Run, value: Value, given: Arguments): Value {
  const [cased, by, down] = given.bind("dictsort", [
    ["case_sensitive", false],
    ["by", "key"],
    ["reverse", false],
  ]);
  if (by !== "key" && by !== "value") {
    throw new TemplateError("dictsort sorts by key or by value");
  }
  const found = pairsOf(run, value);
  const keys = found.map(({ items }) => items[by === "value" ? 1 : 0] ?? null);
  return sorted(run, found, sortKeys(run, keys, truth(cased)), truth(down));
}

function sortKeys(run: Run, keys: readonly Value[], cased: boolean): readonly Value[] {
  run.items(keys.length);
  if (cased) return keys;
  return keys.map((key) => (typeof key === "string" ? run.made(key.toLowerCase()) : key));
}

function sorted(
  run: Run,
  items: readonly Value[],
  keys: readonly Value[],
  down: boolean,
): readonly Value[] {
  run.items(2 * items.length);
  const sign = down ? -1 : 1;
  const places = items.map((_, i) => i);
  places.sort((a, b) => sign * order(run, keys[a] ?? null, keys[b] ?? null));
  return places.map((place) => items[place] ?? null);
}

function extreme(name: string, sign: number): Filter {
  return (run, value, given) => {
    const [cased, path] = given.bind(name, [
      ["case_sensitive", false],
      ["attribute", null],
    ]);
    const items = itemsOf(run, value);
    const keys = sortKeys(run, lookedUp(run, items, path), truth(cased));
    let best = 0;
    for (let i = 1; i < items.length; i++) {
      if (sign * order(run, keys[i] ?? null, keys[best] ?? null) < 0) best = i;
    }
    return items[best] ?? (items.length > 0 ? null : new Undefined(`there is no ${name}`));
  };
}

function unique(run: Run, value: Value, given: Arguments): Value {
  const [cased, path] = given.bind("unique", [
    ["case_sensitive", false],
    ["attribute", null],
  ]);
  const items = itemsOf(run, value);
  const keys = sortKeys(run, lookedUp(run, items, path), truth(cased));
  const seen: Value[] = [];
  const kept = items.filter((_, i) => {
    const key = keys[i] ?? null;
    if (isList(key) || isDict(key)) throw new TemplateError(`unique cannot compare ${kind(key)}`);
    if (seen.some((other) => equal(run, key, other))) return false;
    seen.push(key);
    return true;
  });
  return new Stream(kept);
}

/** The value of each item at a path such as `function.name`; the items where there is none. */
export function lookedUp(
  run: Run,
  items: readonly Value[],
  path: Value,
  otherwise: Value = null,
): readonly Value[] {
  run.items(items.length);
  if (path === null) return items;
  if (typeof path === "string") run.items(path.length);
  const steps: readonly Value[] =
    typeof path === "string"
      ? path.split(".").map((step) => (/^[0-9]{1,9}$/.test(step) ? Number(step) : step))
      : [whole(path, "an attribute")];
  return items.map((item) =>
    steps.reduce((found, step) => {
      run.spend(1);
      const next = itemOf(found, step);
      return otherwise !== null && next instanceof Undefined ? otherwise : next;
    }, item),
  );
}

function selecting(name: string, wanted: boolean, byAttribute: boolean): Filter {
  return (run, value, given) => {
    const items = truth(value) ? itemsOf(run, value) : [];
    const placed = [...given.placed];
    let looked = items;
    if (byAttribute) {
      const path = placed.shift();
      if (path === undefined) throw new TemplateError(`${name} needs an attribute`);
      looked = lookedUp(run, items, path);
    }
    const asked = placed.shift();
    const test = asked === undefined ? null : plainText(asked, name);
    const rest = new Arguments(placed, given.named);
    run.items(items.length);
    const kept = items.filter((_, i) => {
      const one = looked[i] ?? null;
      return (test === null ? truth(one) : check(run, test, one, rest)) === wanted;
    });
    return new Stream(kept);
  };
}

export const SEQUENCE_FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["dictsort", sortPairs],
  ["first", first],
  ["items", pairs],
  ["last", last],
  ["list", list],
  ["max", extreme("max", -1)],
  ["min", extreme("min", 1)],
  ["reject", selecting("reject", false, false)],
  ["rejectattr", selecting("rejectattr", false, true)],
  ["reverse", reverse],
  ["select", selecting("select", true, false)],
  ["selectattr", selecting("selectattr", true, true)],
  ["sort", sort],
  ["sum", sum],
  ["unique", unique],
]);
