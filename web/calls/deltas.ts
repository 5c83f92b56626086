/** What a stream of a model's text turns out to be, a piece at a time. As in Python's `calls/deltas.py`. */

/** Why something is no call: what stands there is none, the stream ended in it, it is too long. */
export type Why = "malformed" | "cut" | "too long";

export type Delta =
  /** Text of the answer. */
  | { readonly kind: "content"; readonly text: string }
  /** Text that was thought before the answer. */
  | { readonly kind: "reasoning"; readonly text: string }
  /**
   * A tool is called. Calls are counted from 0, and no number is used twice; the id is the model's own where it
   * gives one before the arguments, else a fresh one; nobody has looked whether there is a tool of that name.
   */
  | {
      readonly kind: "call begins";
      readonly index: number;
      readonly id: string;
      readonly name: string;
    }
  /** The next piece of a call's arguments: joined, they are the text of one JSON object. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string }
  /** The arguments of a call are complete, and valid JSON. */
  | { readonly kind: "call ends"; readonly index: number }
  /**
   * What began as a call, and is none; what follows it is read as ever. Its index is that of the call that had
   * begun, or null; its text all of it as the model wrote it, from its mark (or the end of the call before) on.
   */
  | {
      readonly kind: "no call";
      readonly index: number | null;
      readonly text: string;
      readonly why: Why;
    };

/** The same deltas with neighbours that are pieces of one text joined. */
export function joined(deltas: Iterable<Delta>): Delta[] {
  const found: Delta[] = [];
  for (const delta of deltas) {
    const last = found.at(-1);
    const together =
      (delta.kind === "content" && last?.kind === "content") ||
      (delta.kind === "reasoning" && last?.kind === "reasoning") ||
      (delta.kind === "arguments" && last?.kind === "arguments" && last.index === delta.index);
    if (together) found[found.length - 1] = { ...delta, text: last.text + delta.text };
    else found.push(delta);
  }
  return found;
}
