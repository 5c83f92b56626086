/** Grammars, which come with requests, and the masks that they have. */

import { Matcher } from "../../grammar/matcher.ts";
import { Triggered } from "../../grammar/triggered.ts";
import { bytesOf } from "../../grammar/utf8.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { lowerGrammar } from "../../grammar/written.ts";
import type { Random } from "../engine/random.ts";
import { damaged } from "./mutate.ts";

/** The repository's, whose root a child runs in. */
const CASES = "tests/grammar/masks.json";
const STEPS = 6;

const SYNTAX = [
  ...["::=", ":", "\n", '"', '"a"', "[", "]", "[^", "(", ")", "|", "*", "?", "{9}", "~ 9..99", "/"],
  ...["/a+/i", "%ignore ", "%import common.", "<", "//", "#", "\\", "..", "->", "_A", "root "],
  ...[
    "start: ",
    "\na: a a",
    "\nroot ::= root",
    "(".repeat(70),
    "{99999}",
    "{0,999}",
    "\\U0010ffff",
  ],
];
const ITEM = /"(?:[^"\\\n]|\\.)+"|\[(?:[^\]\\\n]|\\.)+\]/g;
/** What an item of GBNF may become, where it is an @: still a grammar, but for rules that begin with themselves. */
const AROUND = [
  ...["@*", "@{0,999}", "@{400}", "(@ | @ @){9,99}", "(@? @?){0,99}", "((@*)* @*){3,40}"],
  ...[
    '([ab]* "a" [ab]{400} @)',
    '(@ root "x" | @ root "y")?',
    "(@ root)*",
    "@ root? @",
    "[^a]{5,}",
  ],
  ...[
    '(@{1,40} "b"?){0,40}',
    "(@ [^x])+",
    "(@ | .)*",
    "(@{0,30}){0,30}",
    '("a" | "aa" | @){40,50}',
  ],
];
const WORDS = [
  "true",
  "null",
  '": ',
  '", "',
  '{"',
  "}]",
  "()",
  "    ",
  "ab".repeat(20),
  "日本",
  "😀",
];
const VOCABULARY = new Vocabulary([
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...WORDS.map(bytesOf),
  ...WORDS.map((word) => bytesOf(word).slice(1)),
  null,
]);

/** A grammar of which some items have become other ones, or with any damage. */
export function mutateGrammar(rng: Random, text: string): string {
  if (rng.chance(0.2)) return damaged(rng, text, SYNTAX);
  let now = text;
  for (let left = rng.pick([1, 1, 2, 4]); left > 0; left--) {
    const items = [...now.matchAll(ITEM)];
    if (items.length === 0) return damaged(rng, now, SYNTAX);
    const item = rng.pick(items);
    const changed = rng.pick(AROUND).replaceAll("@", () => item[0]);
    now = now.slice(0, item.index) + changed + now.slice(item.index + item[0].length);
  }
  return now;
}

/** Grammars that are valid. */
export function grammarTexts(fileOf: (path: string) => Uint8Array): string[] {
  const found: unknown = JSON.parse(new TextDecoder().decode(fileOf(CASES)));
  const cases = typeof found === "object" && found && "cases" in found ? found.cases : [];
  return (Array.isArray(cases) ? cases : []).map(({ text }: { text: string }) => text);
}

/** Follow tokens, and look whether masks say what may come. */
export function useGrammar(text: string): void {
  const matcher = new Matcher(lowerGrammar(text), VOCABULARY);
  follow(matcher, text);
  const triggered = new Triggered(matcher, [bytesOf("<a>"), bytesOf("<<")], "free", VOCABULARY);
  follow(triggered, text, triggered.advanceBytes(triggered.start, bytesOf("b<<")));
}

function follow(matcher: Matcher, text: string, start: number | null = matcher.start): void {
  let state = start;
  for (let step = 1; step <= STEPS && state !== null; step++) {
    const from: number = state;
    const mask = matcher.mask(from);
    const next = Array.from({ length: VOCABULARY.size }, (_, token) =>
      matcher.advance(from, token),
    );
    const unlike = next.findIndex(
      (to, token) => (to !== null) !== (((mask[token >>> 5] ?? 0) >>> (token & 31)) % 2 === 1),
    );
    if (unlike >= 0) throw new RangeError(`token ${unlike} is not what its mask says`);
    const [forced] = matcher.forced(from, 1);
    const open = next.filter((to) => to !== null);
    if (forced !== undefined && next[forced] === null)
      throw new RangeError(`${forced} may not come`);
    if (matcher.mustEnd(from) !== (open.length === 0)) throw new RangeError("no end, and no token");
    state = open[(step * 7919 + text.length) % open.length] ?? null;
  }
}
