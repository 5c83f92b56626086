/** Formulas in markdown: `$…$` and `\(…\)` in a line, `$$…$$` and `\[…\]` for themselves. */

import type { TokenizerAndRendererExtension } from "marked";

export interface Formula {
  readonly type: "formula";
  readonly raw: string;
  readonly tex: string;
  /** Shown for itself, not in a line. */
  readonly display: boolean;
}

/** What may be in a formula: no blank lines, and not everything that follows. */
const WITHIN = String.raw`(?:[^\\\n]|\\[^\n]|\\?\n(?![ \t]*\n)){1,2000}?`;
const DISPLAY = String.raw`\$\$(${WITHIN})\$\$|\\\[(${WITHIN})\\\]`;
/** As other programs have it, so that `$5 and $6` and `$5/$6` are prices. */
const DOLLARS = String.raw`\$(?![\s$])((?:[^\\$\n]|\\[^\n]|\n(?![ \t]*\n)){1,1000}?)(?<!\s)\$(?![\w$])`;
const INLINE = String.raw`\\\((${WITHIN})\\\)|${DOLLARS}`;

const BLOCK = new RegExp(String.raw`^ {0,3}(?:${DISPLAY})[ \t]*(?:\n+|$)`);
const NEXT_BLOCK = new RegExp(String.raw`\n {0,3}(?:${DISPLAY})[ \t]*(?:\n|$)`);
const IN_LINE = new RegExp(`^(?:${DISPLAY}|${INLINE})`);
const OPENING = /\$|\\[([]/;

/** For markdown's reader. A block is read before its lines can be taken for lists or headings. */
export const formulas: TokenizerAndRendererExtension[] = [
  {
    name: "formulas",
    level: "block",
    start: (source) => {
      const paragraph = source.slice(0, source.indexOf("\n\n") + 1 || undefined);
      return found(paragraph.search(NEXT_BLOCK) + 1);
    },
    tokenizer: (source) => {
      const match = BLOCK.exec(source);
      return match ? formula(match[0], true, match[1] ?? match[2]) : undefined;
    },
  },
  {
    name: "formula",
    level: "inline",
    start: (source) => found(source.search(OPENING) + 1, -1),
    tokenizer: (source) => {
      const match = IN_LINE.exec(source);
      if (!match) return undefined;
      const display = match[1] ?? match[2];
      return formula(match[0], display !== undefined, display ?? match[3] ?? match[4]);
    },
  },
];

/** What a search found, nothing where it found 0. */
function found(after: number, offset = 0): number | undefined {
  return after === 0 ? undefined : after + offset;
}

function formula(raw: string, display: boolean, tex = ""): Formula {
  return { type: "formula", raw, tex: tex.trim(), display };
}
