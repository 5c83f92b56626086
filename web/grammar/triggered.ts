/** Free text, and texts of a grammar from triggers on, such as an answer with calls of tools. */

import { EdgewiseError, shorten } from "../errors.ts";
import { freeText } from "./free-text.ts";
import { Matcher } from "./matcher.ts";
import type { Vocabulary } from "./vocabulary.ts";

/**
 * Anything may come, also tokens without bytes, up to a trigger, with which a text of the grammar
 * begins; after it free text goes on (`free`), or nothing follows (`end`). An answer may end in free
 * text, also within what would become a trigger, and where the grammar's text may.
 *
 * A trigger can only be written where a text of the grammar goes on from it. Tokens without bytes
 * are no part of a text: what they stand between goes on as if they were not there.
 */
export class Triggered extends Matcher {
  /**
   * @param matcher of a grammar whose texts begin with a trigger each.
   * @throws EdgewiseError `constraint.triggers` for no triggers, an empty one, too many, and one that
   *   no text of the grammar begins with; what `Matcher` throws.
   */
  constructor(
    matcher: Matcher,
    triggers: readonly Uint8Array[],
    after: "free" | "end",
    vocabulary: Vocabulary,
  ) {
    super(matcher.grammar, vocabulary, { table: freeText(triggers), after });
    const missing = triggers.find(
      (trigger) => matcher.advanceBytes(matcher.start, trigger) === null,
    );
    if (missing) {
      throw new EdgewiseError(
        "constraint.triggers",
        `No text of the grammar begins with ${shorten(new TextDecoder().decode(missing))}.`,
      );
    }
  }
}
