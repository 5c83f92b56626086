/** Code in colours while it grows: read anew when it has grown by a part, so that all of it costs little. */

import type { Markup } from "./markup.ts";

/** Null for a language that it does not know. */
export type Highlight = (code: string, language: string) => readonly Markup[] | null;

export interface Coloured {
  /** How much of the code is in colours, from its start. */
  readonly length: number;
  readonly colours: readonly Markup[];
}

const PLAIN: Coloured = { length: 0, colours: [] };
/** By how much code grows before it is read again. */
const GROWTH = 1.25;
const AT_LEAST = 80;
/** Characters above which code stays plain: reading it would be felt. */
const MOST = 60_000;

export function createColouring(): (
  code: string,
  language: string,
  growing: boolean,
  highlight: Highlight,
) => Coloured {
  let known = { ...PLAIN, code: "", language: "" };
  return (code, language, growing, highlight) => {
    const goesOn = known.language === language && code.startsWith(known.code);
    if (!goesOn) known = { ...PLAIN, code: "", language };
    const wanted = growing ? code.slice(0, code.lastIndexOf("\n") + 1) : code;
    const { length } = known.code;
    const enough = growing ? wanted.length < length * GROWTH + AT_LEAST : wanted.length === length;
    if (enough || wanted.length > MOST) return known;
    const colours = highlight(wanted, language);
    known = { code: wanted, language, length: colours ? wanted.length : 0, colours: colours ?? [] };
    return known;
  };
}
