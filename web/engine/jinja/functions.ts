/** The functions that a template finds under their names. */

import { type Run, TemplateError } from "./run.ts";
import {
  type Arguments,
  Callable,
  isDict,
  type Key,
  Namespace,
  plainText,
  REQUIRED,
  textOf,
  type Value,
  whole,
} from "./values.ts";

/** As in Jinja's own sandbox. */
const MAX_RANGE = 100_000;

const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const MONTHS =
  "January February March April May June July August September October November December".split(
    " ",
  );
const DAY_MS = 86_400_000;

const TIMES: Readonly<Record<string, (time: Date) => string>> = {
  Y: (time) => String(time.getFullYear()),
  y: (time) => two(time.getFullYear() % 100),
  m: (time) => two(time.getMonth() + 1),
  B: (time) => MONTHS[time.getMonth()] ?? "",
  b: (time) => (MONTHS[time.getMonth()] ?? "").slice(0, 3),
  d: (time) => two(time.getDate()),
  e: (time) => String(time.getDate()).padStart(2),
  j: (time) => String(dayOfYear(time)).padStart(3, "0"),
  A: (time) => DAYS[time.getDay()] ?? "",
  a: (time) => (DAYS[time.getDay()] ?? "").slice(0, 3),
  H: (time) => two(time.getHours()),
  I: (time) => two(time.getHours() % 12 || 12),
  p: (time) => (time.getHours() < 12 ? "AM" : "PM"),
  M: (time) => two(time.getMinutes()),
  S: (time) => two(time.getSeconds()),
  F: (time) => `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`,
  T: (time) => `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`,
  "%": () => "%",
};

function two(value: number): string {
  return String(value).padStart(2, "0");
}

function dayOfYear(time: Date): number {
  const [year, month, day] = [time.getFullYear(), time.getMonth(), time.getDate()];
  return Math.round((Date.UTC(year, month, day) - Date.UTC(year, 0, 1)) / DAY_MS) + 1;
}

function range(run: Run, given: Arguments): Value {
  const [first, second, third] = given.bind("range", [
    ["start", REQUIRED],
    ["stop", null],
    ["step", 1],
  ]);
  const [from, to] = second === null ? [0, first] : [first, second];
  const [start, stop, step] = [whole(from, "range"), whole(to, "range"), whole(third, "range")];
  if (step === 0) throw new TemplateError("the step of a range is not 0");
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > MAX_RANGE) {
    throw new TemplateError(`a range has ${length} numbers; at most ${MAX_RANGE} are made`);
  }
  run.items(length);
  return Array.from({ length }, (_, i) => start + i * step);
}

function raise(run: Run, given: Arguments): Value {
  const [message] = given.bind("raise_exception", [["message", REQUIRED]]);
  throw new TemplateError(textOf(run, message));
}

function namespace(run: Run, given: Arguments): Value {
  const values = named(run, "namespace", given);
  for (const name of values.keys()) checkSettable(name);
  return new Namespace(new Map([...values].map(([name, value]) => [String(name), value])));
}

function named(run: Run, name: string, given: Arguments): Map<Key, Value> {
  run.items(2 * given.named.size);
  const [dict] = given.placed;
  if (given.placed.length > 1 || (dict !== undefined && !isDict(dict))) {
    throw new TemplateError(`${name} takes a dict, and values by name`);
  }
  if (dict) run.items(2 * dict.size);
  return new Map<Key, Value>([...(dict ?? []), ...given.named]);
}

/** @throws TemplateError for a name that no namespace may hold. */
export function checkSettable(name: Key): void {
  if (typeof name !== "string" || name.startsWith("_")) {
    throw new TemplateError(`a namespace cannot hold '${String(name).slice(0, 40)}'`);
  }
}

function strftime(run: Run, given: Arguments): Value {
  const [form] = given.bind("strftime_now", [["format", REQUIRED]]);
  const text = plainText(form, "strftime_now");
  run.make(10 * text.length);
  return text.replace(/%(-?)(.)/gsu, (place, bare: string, name: string) => {
    const part = Object.hasOwn(TIMES, name) ? TIMES[name] : undefined;
    if (!part) throw new TemplateError(`strftime_now does not know ${place}`);
    const written = part(run.now);
    return bare ? written.replace(/^[0 ]+/, "") || "0" : written;
  });
}

export const GLOBALS: ReadonlyMap<string, Callable> = new Map(
  Object.entries({
    range,
    raise_exception: raise,
    dict: (run: Run, given: Arguments) => named(run, "dict", given),
    namespace,
    strftime_now: strftime,
  }).map(([name, call]) => [name, new Callable(name, call)]),
);
