/** The methods of text: as Python's, each charged for what it reads and makes. */

import { braced, joined } from "./arithmetic.ts";
import {
  capitalized,
  isSpace,
  lineEnds,
  lines,
  STRIPS,
  type Strip,
  split,
  splitLast,
  title,
} from "./python-text.ts";
import { type Run, TemplateError } from "./run.ts";
import {
  type Arguments,
  charactersOf,
  itemsOf,
  plainText,
  REQUIRED,
  Tuple,
  type Value,
  whole,
} from "./values.ts";

type TextMethod = (run: Run, text: string, given: Arguments) => Value;

/** How often a text that is not empty is in another one. */
function timesIn(text: string, wanted: string): number {
  if (wanted === "") return charactersOf(text) + 1;
  let count = 0;
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
    count += 1;
  }
  return count;
}

/** `text` with `old` replaced by `new_`, at most so many times (negative: all). */
export function replaced(run: Run, text: string, old: string, new_: string, most: number): string {
  run.look(text.length, old.length);
  const found = most === 0 ? 0 : timesIn(text, old);
  const count = most < 0 ? found : Math.min(found, most);
  run.make(text.length + count * (new_.length - old.length));
  if (count === 0) return text;
  const pieces = old === "" ? ["", ...text] : text.split(old);
  const [first = "", ...rest] = pieces;
  if (old !== "") {
    const tail = rest.slice(count).join(old);
    const replacedPart = [first, ...rest.slice(0, count)].join(new_);
    return count < rest.length ? replacedPart + old + tail : replacedPart;
  }
  const marked = pieces.slice(1, count + 1).map((character) => new_ + character);
  const end = count > rest.length ? new_ : "";
  return marked.join("") + pieces.slice(count + 1).join("") + end;
}

export function splitLines(run: Run, text: string): readonly string[] {
  run.look(text.length);
  run.make(text.length);
  run.items(3 * (1 + lineEnds(text)));
  return lines(text);
}

function stripping(name: string, call: Strip): TextMethod {
  return (run, text, given) => {
    const [characters] = given.bind(name, [["characters", null]]);
    const set = characters === null ? undefined : plainText(characters, name);
    run.look(text.length, set?.length ?? 0);
    return run.made(call(text, set));
  };
}

function splitting(
  name: string,
  call: (text: string, between: string | null, most: number) => string[],
): TextMethod {
  return (run, text, given) => {
    const [at, most] = given.bind(name, [
      ["sep", null],
      ["maxsplit", -1],
    ]);
    const between = at === null ? null : plainText(at, name);
    if (between === "") throw new TemplateError(`${name} takes a text that is not empty`);
    run.look(text.length, between?.length ?? 0);
    const pieces = between === null ? (text.length >> 1) + 1 : timesIn(text, between) + 1;
    const limit = whole(most, name);
    run.items(3 * (limit < 0 ? pieces : Math.min(pieces, limit + 1)));
    run.make(text.length);
    return call(text, between, limit);
  };
}

function cased(name: string, call: (text: string) => string): TextMethod {
  return (run, text, given) => {
    given.bind(name, []);
    run.look(text.length);
    return run.made(call(text));
  };
}

function affixed(name: string, call: (text: string, affix: string) => boolean): TextMethod {
  return (run, text, given) => {
    const [affix] = given.bind(name, [["affix", REQUIRED]]);
    return (affix instanceof Tuple ? affix.items : [affix]).some((one) => {
      const wanted = plainText(one, name);
      run.look(wanted.length);
      return call(text, wanted);
    });
  };
}

function searching(name: string, call: (text: string, wanted: string) => number): TextMethod {
  return (run, text, given) => {
    const [sought] = given.bind(name, [["sought", REQUIRED]]);
    const wanted = plainText(sought, name);
    run.look(text.length, wanted.length);
    return call(text, wanted);
  };
}

/** A position in UTF-16's units as one in characters. */
function position(text: string, at: number): number {
  return at < 0 ? at : charactersOf(text.slice(0, at));
}

function without(name: string, call: (text: string, affix: string) => string): TextMethod {
  return (run, text, given) => {
    const [affix] = given.bind(name, [["affix", REQUIRED]]);
    return run.made(call(text, plainText(affix, name)));
  };
}

function parting(name: string, last: boolean): TextMethod {
  return (run, text, given) => {
    const [at] = given.bind(name, [["sep", REQUIRED]]);
    const between = plainText(at, name);
    if (!between) throw new TemplateError(`${name} takes a text that is not empty`);
    run.look(text.length, between.length);
    run.make(text.length);
    const found = last ? text.lastIndexOf(between) : text.indexOf(between);
    if (found < 0) return new Tuple(last ? ["", "", text] : [text, "", ""]);
    return new Tuple([text.slice(0, found), between, text.slice(found + between.length)]);
  };
}

const LIKE: Readonly<Record<string, (text: string) => boolean>> = {
  isalnum: (text) => /^[A-Za-z0-9]+$/.test(text),
  isalpha: (text) => /^[A-Za-z]+$/.test(text),
  isdigit: (text) => /^[0-9]+$/.test(text),
  islower: (text) => /[a-z]/.test(text) && !/[A-Z]/.test(text),
  isspace: isSpace,
  isupper: (text) => /[A-Z]/.test(text) && !/[a-z]/.test(text),
};

/** What `text.name()` says in Python of a text of ASCII's characters. */
export function isLike(name: string, text: string): boolean {
  if (/\P{ASCII}/u.test(text)) {
    throw new TemplateError(`${name} is not supported for letters beyond ASCII`);
  }
  return LIKE[name]?.(text) ?? false;
}

function liking(name: string): TextMethod {
  return (run, text, given) => {
    given.bind(name, []);
    run.look(text.length);
    return isLike(name, text);
  };
}

const METHODS: Readonly<Record<string, TextMethod>> = {
  capitalize: cased("capitalize", capitalized),
  count: searching("count", timesIn),
  endswith: affixed("endswith", (text, affix) => text.endsWith(affix)),
  find: searching("find", (text, wanted) => position(text, text.indexOf(wanted))),
  format: braced,
  index: searching("index", (text, wanted) => {
    const at = text.indexOf(wanted);
    if (at < 0) throw new TemplateError("index finds no such text");
    return position(text, at);
  }),
  join: (run, text, given) => {
    const [items] = given.bind("join", [["items", REQUIRED]]);
    const texts = itemsOf(run, items).map((item) => plainText(item, "join"));
    return joined(run, texts, text);
  },
  lower: cased("lower", (text) => text.toLowerCase()),
  lstrip: stripping("lstrip", STRIPS.lstrip),
  partition: parting("partition", false),
  removeprefix: without("removeprefix", (text, affix) =>
    text.startsWith(affix) ? text.slice(affix.length) : text,
  ),
  removesuffix: without("removesuffix", (text, affix) =>
    text.endsWith(affix) ? text.slice(0, text.length - affix.length) : text,
  ),
  replace: (run, text, given) => {
    const [old, new_, most] = given.bind("replace", [
      ["old", REQUIRED],
      ["new", REQUIRED],
      ["count", -1],
    ]);
    const texts = [plainText(old, "replace"), plainText(new_, "replace")] as const;
    return replaced(run, text, ...texts, whole(most, "replace"));
  },
  rfind: searching("rfind", (text, wanted) => position(text, text.lastIndexOf(wanted))),
  rpartition: parting("rpartition", true),
  rsplit: splitting("rsplit", splitLast),
  rstrip: stripping("rstrip", STRIPS.rstrip),
  split: splitting("split", split),
  splitlines: (run, text, given) => {
    given.bind("splitlines", []);
    return splitLines(run, text);
  },
  startswith: affixed("startswith", (text, affix) => text.startsWith(affix)),
  strip: stripping("strip", STRIPS.strip),
  title: cased("title", title),
  upper: cased("upper", (text) => text.toUpperCase()),
  ...Object.fromEntries(Object.keys(LIKE).map((name) => [name, liking(name)])),
};

/** By their names in Python. */
export const TEXT_METHODS: ReadonlyMap<string, (run: Run, text: Value, given: Arguments) => Value> =
  new Map(
    Object.entries(METHODS).map(([name, method]) => [
      name,
      (run, text, given) => method(run, plainText(text, name), given),
    ]),
  );
