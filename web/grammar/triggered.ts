/** Free text, and texts of a grammar after triggers, such as an answer with calls of tools. */

import { freeText } from "./free-text.ts";
import { Matcher } from "./matcher.ts";
import type { Vocabulary } from "./vocabulary.ts";

/**
 * Anything may come, also tokens without bytes, up to a trigger. A text of the grammar follows it;
 * then free text goes on (`free`), or nothing follows (`end`). An answer may end in free text, also
 * within what would become a trigger, and where the grammar's text may.
 *
 * Tokens without bytes are no part of a text: what they stand between goes on as if they were not
 * there.
 */
export class Triggered extends Matcher {
  /**
   * @param matcher of the grammar.
   * @throws EdgewiseError `constraint.triggers` for no triggers, an empty one, and too many; what
   *   `Matcher` throws.
   */
  constructor(
    matcher: Matcher,
    triggers: readonly Uint8Array[],
    after: "free" | "end",
    vocabulary: Vocabulary,
  ) {
    super(matcher.grammar, vocabulary, { table: freeText(triggers), after });
  }
}
