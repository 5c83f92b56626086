/** What escapes and groups of regular expressions mean, and which of them are refused, by name. */

import { characters, others, type Ranges, rangesOf } from "./ranges.ts";

/** What is in a class by both languages, and what is by one of them. */
export interface Class {
  readonly sure: Ranges;
  readonly perhaps: Ranges;
}

export const same = (ranges: Ranges): Class => ({ sure: ranges, perhaps: ranges });
export const negated = ({ sure, perhaps }: Class): Class => ({
  sure: others(perhaps),
  perhaps: others(sure),
});

const DIGITS = same(rangesOf([[0x30, 0x39]]));
const WORD = same(
  rangesOf([
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ]),
);
const SPACE: Class = {
  sure: characters("\t\n\v\f\r "),
  perhaps: characters(
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008" +
      "\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
  ),
};
export const CLASSES: ReadonlyMap<string, Class> = new Map([
  ["d", DIGITS],
  ["D", negated(DIGITS)],
  ["w", WORD],
  ["W", negated(WORD)],
  ["s", SPACE],
  ["S", negated(SPACE)],
]);
export const DOT = others(characters("\n\r\u2028\u2029"));
export const CONTROLS: ReadonlyMap<string, number> = new Map([
  ["n", 10],
  ["r", 13],
  ["t", 9],
  ["f", 12],
  ["v", 11],
]);
export const PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

export const REFUSED_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["b", "a word boundary (\\b)"],
  ["B", "what is no word boundary (\\B)"],
  ["A", "an anchor (\\A) that only some languages have"],
  ["Z", "an anchor (\\Z) that only some languages have"],
  ["z", "an anchor (\\z) that only some languages have"],
  ["p", "a property of Unicode's (\\p)"],
  ["P", "a property of Unicode's (\\P)"],
  ["k", "a back-reference (\\k)"],
  ...Array.from("123456789", (digit) => [digit, `a back-reference (\\${digit})`] as const),
]);
/** How groups begin, the longer ones first where one begins another; what is refused, by name. */
export const GROUPS: readonly (readonly [string, string | null])[] = [
  ["?:", null],
  ["?=", "a look-ahead"],
  ["?!", "a look-ahead"],
  ["?<=", "a look-behind"],
  ["?<!", "a look-behind"],
  ["?>", "an atomic group"],
  ["?#", "a comment"],
  ["?(", "a condition"],
  ["?P=", "a back-reference"],
  ["?P>", "a group called by its name"],
  ["?&", "a group called by its name"],
  ["?P<", "name"],
  ["?<", "name"],
  ["?", "an inline flag"],
];
