/** Jinja's filters: what `value | name` makes. */

import { escaped, joined, percent, within } from "./arithmetic.ts";
import { counted } from "./compare.ts";
import { jsonText } from "./json.ts";
import { isSpace, SPACE } from "./python-text.ts";
import { type Run, TemplateError } from "./run.ts";
import { type Filter, lookedUp, SEQUENCE_FILTERS } from "./sequences.ts";
import { replaced, splitLines, TEXT_METHODS } from "./texts.ts";
import {
  Arguments,
  Float,
  finite,
  isList,
  itemsOf,
  kind,
  Marked,
  plainText,
  REQUIRED,
  Stream,
  sizeOf,
  Tuple,
  textOf,
  truth,
  Undefined,
  type Value,
  whole,
} from "./values.ts";

const WORDS = new RegExp(`([-${SPACE}({[<]+)`);
const INTEGER = new RegExp(`^[${SPACE}]*[-+]?[0-9]+(?:_[0-9]+)*[${SPACE}]*$`);
const DIGITS = "[0-9]+(?:_[0-9]+)*";
const FLOAT = new RegExp(
  `^[${SPACE}]*[-+]?(?:${DIGITS}(?:\\.(?:${DIGITS})?)?|\\.${DIGITS})` +
    `(?:[eE][-+]?${DIGITS})?[${SPACE}]*$`,
);
const MAX_DIGITS = 40;

/** What the filter `name` makes of a value. */
export function filtered(run: Run, name: string, value: Value, given: Arguments): Value {
  const filter = FILTERS.get(name);
  if (!filter) throw new TemplateError(`there is no filter '${name}'`);
  return filter(run, value, given);
}

function unmarkedText(run: Run, value: Value, name: string): string {
  if (value instanceof Marked) {
    throw new TemplateError(`${name} is not supported for text that is marked safe`);
  }
  return textOf(run, value);
}

function method(name: string, as = name): Filter {
  return (run, value, given) => {
    const call = TEXT_METHODS.get(as);
    if (!call) throw new TemplateError(`there is no filter '${name}'`);
    return call(run, unmarkedText(run, value, name), given);
  };
}

function titled(run: Run, value: Value, given: Arguments): Value {
  given.bind("title", []);
  const text = unmarkedText(run, value, "title");
  run.items(text.length);
  const words = text.split(WORDS).filter((word) => word !== "");
  const large = words.map((word) => {
    const [first = ""] = word;
    return first.toUpperCase() + word.slice(first.length).toLowerCase();
  });
  return run.made(large.join(""));
}

function replacing(run: Run, value: Value, given: Arguments): Value {
  const [old, new_, most] = given.bind("replace", [
    ["old", REQUIRED],
    ["new", REQUIRED],
    ["count", null],
  ]);
  const text = unmarkedText(run, value, "replace");
  const texts = [unmarkedText(run, old, "replace"), unmarkedText(run, new_, "replace")] as const;
  return replaced(run, text, ...texts, most === null ? -1 : whole(most, "replace"));
}

function indenting(run: Run, value: Value, given: Arguments): Value {
  const [width, first, blank] = given.bind("indent", [
    ["width", 4],
    ["first", false],
    ["blank", false],
  ]);
  const text = plainText(value, "indent");
  const size = typeof width === "string" ? width.length : Math.max(0, whole(width, "indent"));
  run.make(size);
  const space = typeof width === "string" ? width : " ".repeat(size);
  const [top = "", ...lines] = splitLines(run, `${text}\n`);
  run.make(text.length + (lines.length + 1) * (1 + space.length));
  const indented = lines.map((line) => (line !== "" || truth(blank) ? space + line : line));
  return (truth(first) ? space : "") + [top, ...indented].join("\n");
}

function marking(name: string, mark: (run: Run, text: string) => string): Filter {
  return (run, value, given) => {
    given.bind(name, []);
    return value instanceof Marked ? value : new Marked(mark(run, textOf(run, value)));
  };
}

function formatting(run: Run, value: Value, given: Arguments): Value {
  if (given.named.size > 0) throw new TemplateError("format takes values without names");
  return percent(run, unmarkedText(run, value, "format"), given.placed);
}

function toJson(run: Run, value: Value, given: Arguments): Value {
  const [asciiOnly, indent, separators, sortKeys] = given.bind("tojson", [
    ["ensure_ascii", false],
    ["indent", null],
    ["separators", null],
    ["sort_keys", false],
  ]);
  const marks = separators instanceof Tuple ? separators.items : separators;
  const [between, afterKey] = marks === null ? [indent === null ? ", " : ",", ": "] : pair(marks);
  let step: string | null = null;
  if (typeof indent === "string") step = indent;
  else if (indent !== null) {
    const size = Math.max(0, whole(indent, "tojson"));
    run.make(size);
    step = " ".repeat(size);
  }
  const form = { between, afterKey, sortKeys: truth(sortKeys), asciiOnly: truth(asciiOnly) };
  return jsonText(run, value, { indent: step, ...form });
}

function pair(marks: Value): readonly [string, string] {
  const [between, afterKey] = isList(marks) ? marks : [];
  if (isList(marks) && marks.length === 2) {
    if (typeof between === "string" && typeof afterKey === "string") return [between, afterKey];
  }
  throw new TemplateError("the separators of tojson are two texts");
}

function toInteger(run: Run, value: Value, given: Arguments): Value {
  const [otherwise, base] = given.bind("int", [
    ["default", 0],
    ["base", 10],
  ]);
  if (counted(base) !== 10) throw new TemplateError("int is only supported to the base of 10");
  const known = parsed(run, value, INTEGER) ?? parsed(run, value, FLOAT);
  return known === null ? otherwise : within(Math.trunc(known));
}

function toFloat(run: Run, value: Value, given: Arguments): Value {
  const [otherwise] = given.bind("float", [["default", new Float(0)]]);
  const known = parsed(run, value, FLOAT);
  return known === null ? otherwise : new Float(finite(known));
}

/** The number that a value is or a text says; null where it says none. */
function parsed(run: Run, value: Value, form: RegExp): number | null {
  if (value instanceof Undefined) throw new TemplateError(value.said);
  const text = value instanceof Marked ? value.text : value;
  if (typeof text !== "string") return counted(text);
  run.look(text.length);
  if (!form.test(text)) return null;
  const digits = [...text].filter((character) => character !== "_" && !isSpace(character)).join("");
  if (digits.length > MAX_DIGITS) throw new TemplateError("a number has too many digits");
  return form === INTEGER ? within(Number(digits)) : finite(Number(digits));
}

function absolute(_: Run, value: Value, given: Arguments): Value {
  given.bind("abs", []);
  const known = counted(value);
  if (known === null) throw new TemplateError(`abs takes a number, not ${kind(value)}`);
  return value instanceof Float ? new Float(Math.abs(known)) : Math.abs(known);
}

function defaulting(_: Run, value: Value, given: Arguments): Value {
  const [otherwise, falsy] = given.bind("default", [
    ["default_value", ""],
    ["boolean", false],
  ]);
  const missing = value instanceof Undefined || (truth(falsy) && !truth(value));
  return missing ? otherwise : value;
}

function length(_: Run, value: Value, given: Arguments): Value {
  given.bind("length", []);
  return sizeOf(value);
}

function joining(run: Run, value: Value, given: Arguments): Value {
  const [between, path] = given.bind("join", [
    ["d", ""],
    ["attribute", null],
  ]);
  const items = lookedUp(run, itemsOf(run, value), path);
  const text = unmarkedText(run, between, "join");
  return joined(
    run,
    items.map((item) => unmarkedText(run, item, "join")),
    text,
  );
}

function mapping(run: Run, value: Value, given: Arguments): Value {
  const items = truth(value) ? itemsOf(run, value) : [];
  const [name, ...placed] = given.placed;
  if (name === undefined) {
    const [path, otherwise] = given.bind("map", [
      ["attribute", REQUIRED],
      ["default", null],
    ]);
    return new Stream(lookedUp(run, items, path, otherwise));
  }
  run.items(items.length);
  const rest = new Arguments(placed, given.named);
  const filter = plainText(name, "map");
  return new Stream(items.map((item) => filtered(run, filter, item, rest)));
}

function toText(run: Run, value: Value, given: Arguments): Value {
  given.bind("string", []);
  return value instanceof Marked ? value : textOf(run, value);
}

function trimming(run: Run, value: Value, given: Arguments): Value {
  const [characters] = given.bind("trim", [["chars", null]]);
  return method("trim", "strip")(run, value, new Arguments([characters], new Map()));
}

const escaping = marking("escape", escaped);

const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["abs", absolute],
  ["capitalize", method("capitalize")],
  ["count", length],
  ["d", defaulting],
  ["default", defaulting],
  ["e", escaping],
  ["escape", escaping],
  ["float", toFloat],
  ["format", formatting],
  ["indent", indenting],
  ["int", toInteger],
  ["join", joining],
  ["length", length],
  ["lower", method("lower")],
  ["map", mapping],
  ["replace", replacing],
  ["safe", marking("safe", (_, text) => text)],
  ["string", toText],
  ["title", titled],
  ["tojson", toJson],
  ["trim", trimming],
  ["upper", method("upper")],
  ...SEQUENCE_FILTERS,
]);
