/** Where a thought stands in an answer that is held to something. As in Python's `edgewise/thinking.py`. */

import type { Format } from "../calls/format.ts";
import type { Grammar, Node } from "../grammar/nodes.ts";
import { characters } from "../grammar/ranges.ts";
import { until } from "../grammar/until.ts";

/** Characters of white space that may stand between a thought and the answer. */
const MOST_SPACE = 4;
const HEADER = "<|start|>assistant";
const FINAL = "<|channel|>final<|message|>";

/** How an answer's thought is written, if there may be one. */
export interface Thoughts {
  /** What it stands between. */
  readonly open: string;
  readonly close: string;
  /** Special tokens that are part of these texts may come. */
  readonly shown: readonly string[];
  /** The answer may begin with a thought. */
  readonly may: boolean;
  /** It has begun with one, in the prompt. */
  readonly opened: boolean;
  /** What stands before an answer without a thought. */
  readonly straight: string;
  /** What stands between a thought's end and the answer. */
  readonly between: string;
}

/**
 * How answers in a format think.
 *
 * @param given `shown`, special tokens that are part of these texts are read; `may`, the model may think; `opened`,
 *   the prompt has begun a thought.
 */
export function thoughtsOf(
  format: Format,
  given: Pick<Thoughts, "shown" | "may" | "opened">,
): Thoughts {
  const [pair] = format.thoughts;
  if (pair) return { open: pair[0], close: pair[1], straight: "", between: "", ...given };
  return {
    ...given,
    open: "<|channel|>analysis<|message|>",
    close: "<|end|>",
    opened: false,
    straight: FINAL,
    between: HEADER + FINAL,
  };
}

/** What ends a thought that is too long. */
export function closingOf({ close, between }: Thoughts): string {
  return between ? close + between : `\n${close}\n\n`;
}

/** A grammar of answers, with the thoughts that may come before them. */
export function withThoughts(thoughts: Thoughts, answer: Grammar): Grammar {
  const { open, close, may, opened, straight, between } = thoughts;
  const rules = new Map(answer.rules);
  const said: Node = { kind: "rule", name: answer.root };
  let root = sequence(straight, said);
  if (may || opened) {
    const space: Node = {
      kind: "repeat",
      item: { kind: "chars", ranges: characters(" \n") },
      least: 0,
      most: MOST_SPACE,
    };
    const thought = until(close, rules, "thought:");
    const behind: Node = between
      ? sequence(between, said)
      : { kind: "sequence", items: [space, said] };
    const thinking: Node = { kind: "sequence", items: [thought, behind] };
    root = opened ? thinking : { kind: "choice", items: [sequence(open, thinking), root] };
  }
  rules.set("answer:", root);
  return { rules, root: "answer:" };
}

function sequence(text: string, node: Node): Node {
  return text ? { kind: "sequence", items: [{ kind: "literal", text }, node] } : node;
}
