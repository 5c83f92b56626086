/** Markdown as blocks. Of a text that grows only its end is read again. */

import { Marked, type Token } from "marked";
import { formulas } from "./tex.ts";

/** A paragraph, list, table or the like. */
export interface Block {
  /** Tells whether it is still the same. */
  readonly key: string;
  readonly token: Token | Plain;
  /** Of a heading: one more than of the heading that it is under, however many `#` it has. */
  readonly level: number;
}

/** What could not be read, such as quotes in quotes without end. */
export interface Plain {
  readonly type: "plain";
  readonly raw: string;
}

export interface Reader {
  /** Blocks of a text that may go on from the last one. */
  read(markdown: string): readonly Block[];
  /** Characters that were read for all of them. */
  readonly characters: number;
}

/** An answer's headings are below the conversation's own. */
const FIRST_LEVEL = 2;
const LAST_LEVEL = 6;
/**
 * Blocks at the end that what comes may still change: the last one grows, and a list before it may
 * turn out to go on.
 */
const UNSETTLED = 2;

const marked = new Marked({ gfm: true, breaks: true, extensions: formulas });

interface Read {
  readonly tokens: readonly (Token | Plain)[];
  /** URLs defined for names that any text before or after may use. */
  readonly links: string;
}

/** The blocks of a text. */
export function blocks(markdown: string): readonly Block[] {
  return described(lexed(lines(markdown)));
}

export function createReader(): Reader {
  let settled: readonly (Token | Plain)[] = [];
  let before = "";
  let characters = 0;
  const restart = () => {
    settled = [];
    before = "";
  };
  return {
    read(markdown) {
      const text = lines(markdown);
      if (!text.startsWith(before)) restart();
      let end = text.slice(before.length);
      let { tokens, links } = lexed(end);
      characters += end.length;
      if (links !== "" && before !== "") {
        // What is settled may use them.
        restart();
        end = text;
        ({ tokens, links } = lexed(end));
        characters += end.length;
      }
      const read = [...settled, ...tokens];
      const sure = links === "" ? tokens.slice(0, unsettledFrom(tokens)) : [];
      const raw = sure.map((token) => token.raw).join("");
      if (end.startsWith(raw)) {
        settled = [...settled, ...sure];
        before += raw;
      }
      return described({ tokens: read, links });
    },
    get characters() {
      return characters;
    },
  };
}

function lines(markdown: string): string {
  return markdown.includes("\r") ? markdown.replace(/\r\n?/g, "\n") : markdown;
}

function lexed(text: string): Read {
  try {
    const tokens = marked.lexer(text);
    const links = Object.entries(tokens.links).map(([name, { href }]) => `${name} ${href}\n`);
    return { tokens, links: links.join("") };
  } catch {
    return { tokens: [{ type: "plain", raw: text }], links: "" };
  }
}

function unsettledFrom(tokens: Read["tokens"]): number {
  let left = UNSETTLED;
  let index = tokens.length;
  while (index > 0 && left > 0) {
    index -= 1;
    if (tokens[index]?.type !== "space") left -= 1;
  }
  return index;
}

function described({ tokens, links }: Read): readonly Block[] {
  const above: number[] = [];
  return tokens
    .filter(({ type }) => type !== "space" && type !== "def")
    .map((token) => {
      if (token.type === "heading" && "depth" in token) {
        while ((above.at(-1) ?? 0) >= token.depth) above.pop();
        above.push(token.depth);
      }
      const level = Math.min(FIRST_LEVEL - 1 + above.length, LAST_LEVEL);
      const mark = token.type === "heading" ? level : "";
      return { key: `${mark} ${links}${token.raw}`, token, level };
    });
}
