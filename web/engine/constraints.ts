/**
 * What answers are held to, made of what is asked for and kept for others that ask the same. As in Python's
 * `edgewise/constraints.py`.
 */

import type { Format } from "../calls/format.ts";
import { callGrammar } from "../calls/grammar.ts";
import type { Tools } from "../calls/source.ts";
import { EdgewiseError } from "../errors.ts";
import { Matcher } from "../grammar/matcher.ts";
import type { Grammar } from "../grammar/nodes.ts";
import { lowerRegex } from "../grammar/regex.ts";
import { lowerJsonObject, lowerSchema } from "../grammar/schema/lower.ts";
import { Triggered } from "../grammar/triggered.ts";
import { Vocabulary } from "../grammar/vocabulary.ts";
import { lowerGrammar } from "../grammar/written.ts";
import type { Constraint } from "./constraint.ts";
import { Budgeted, free, held } from "./held.ts";
import type { ResponseFormat } from "./response-format.ts";
import { closingOf, type Thoughts, withThoughts } from "./thoughts.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** Matchers that are kept, each with the masks that it has made. */
const MOST_KEPT = 32;
const MOST_VOCABULARIES = 4;

/** Which tools an answer may or has to call, and how calls are written. */
export interface HeldCalls {
  readonly format: Format;
  readonly tools: Tools;
  readonly choice: "auto" | "required" | "named";
  readonly name: string | null;
}

/** What an answer is to be held to. */
export interface Hold {
  readonly answer: ResponseFormat | null;
  readonly calls: HeldCalls | null;
  readonly thoughts: Thoughts;
  /** Tokens of its thought at most; null for any number. */
  readonly budget: number | null;
}

/** Makes what answers are held to. */
export class Constraints {
  private readonly tokenizer: Tokenizer;
  private readonly size: number;
  private readonly ends: ReadonlySet<number>;
  private readonly matchers = new Kept<Matcher>(MOST_KEPT);
  private readonly vocabularies = new Kept<Vocabulary>(MOST_VOCABULARIES);

  /**
   * @param size tokens of the model.
   * @param ends tokens that end answers.
   */
  constructor(tokenizer: Tokenizer, size: number, ends: Iterable<number>) {
    this.tokenizer = tokenizer;
    this.size = size;
    this.ends = new Set(ends);
  }

  /** What an answer has to follow. Throws as `ofFormat` does. */
  of({ answer, calls, thoughts, budget }: Hold): Constraint | null {
    const inner =
      (answer && this.ofFormat(answer, thoughts)) ?? (calls && this.ofCalls(calls, thoughts));
    return budget === null ? inner : this.budgeted(inner, thoughts, budget);
  }

  /**
   * An answer of a format, perhaps after a thought.
   *
   * @throws EdgewiseError what is wrong with a schema, an expression or a grammar; `unsupported.schema` and its like
   *   for what is refused by name; `unsupported.constraint` for a tokenizer that cannot be used.
   */
  ofFormat(wanted: ResponseFormat, thoughts: Thoughts): Constraint {
    const key = JSON.stringify([wanted, thoughts]);
    const matcher = this.matchers.of(
      key,
      () => new Matcher(withThoughts(thoughts, grammarOf(wanted)), this.vocabulary(thoughts.shown)),
    );
    return held(matcher, (text) => this.encode(text));
  }

  /**
   * An answer that may or has to call tools.
   *
   * Null where it may, and the format has no mark after which nothing but a call is meant, or cannot write what the
   * tools' schemas say: such calls are read as they come.
   *
   * @throws EdgewiseError what `callGrammar` throws for those that have to come.
   */
  ofCalls(calls: HeldCalls, thoughts: Thoughts): Constraint | null {
    const { format, tools, choice, name } = calls;
    const may = choice === "auto";
    if (may && format.triggers.length === 0) return null;
    const key = JSON.stringify([format.name, tools, choice, name, thoughts]);
    try {
      const matcher = this.matchers.of(key, () => {
        const vocabulary = this.vocabulary(thoughts.shown);
        return may ? mayCome(calls, vocabulary) : mustCome(calls, thoughts, vocabulary);
      });
      return held(matcher, (text) => this.encode(text));
    } catch (error) {
      const unwritable = error instanceof EdgewiseError && error.code.startsWith("unsupported.");
      if (may && unwritable) return null;
      throw error;
    }
  }

  /** The same answer after a thought of so many tokens at most. */
  budgeted(inner: Constraint | null, thoughts: Thoughts, tokens: number): Constraint {
    const { open, close, opened, shown } = thoughts;
    return new Budgeted(inner ?? free(this.size), this.vocabulary(shown), {
      marks: [open, close],
      opened,
      tokens,
      closing: this.tokenizer.encode(closingOf(thoughts), false),
    });
  }

  private vocabulary(shown: readonly string[]): Vocabulary {
    const { tokenizer, size, ends } = this;
    const make = () => new Vocabulary(tokenizer.tokenBytes(size, shown, ends));
    return this.vocabularies.of(JSON.stringify(shown), make);
  }

  /** The tokens of a text that goes on one: some tokenizers put a space before the first. */
  private encode(text: string): readonly number[] {
    const newline = this.tokenizer.encodePlainly("\n");
    const ids = this.tokenizer.encodePlainly(`\n${text}`);
    return newline.every((id, i) => id === ids[i]) ? ids.slice(newline.length) : ids;
  }
}

function mustCome(
  { format, tools, choice, name }: HeldCalls,
  thoughts: Thoughts,
  vocabulary: Vocabulary,
): Matcher {
  const { grammar } = callGrammar(format, tools, { choice, name });
  // Where the format tells thoughts itself, its grammar of calls has them, too.
  const whole = format.thoughts.length > 0 ? withThoughts(thoughts, grammar) : grammar;
  return new Matcher(whole, vocabulary);
}

/** Thoughts are free text as any other. */
function mayCome({ format, tools }: HeldCalls, vocabulary: Vocabulary): Matcher {
  const made = callGrammar(format, tools, { choice: "auto" });
  const triggers = made.triggers.map((trigger) => new TextEncoder().encode(trigger));
  return new Triggered(new Matcher(made.grammar, vocabulary), triggers, made.after, vocabulary);
}

/** The grammar of a format's texts. Throws as `Constraints.ofFormat` does. */
export function grammarOf(wanted: ResponseFormat): Grammar {
  switch (wanted.kind) {
    case "json_object":
      return lowerJsonObject();
    case "json_schema":
      return lowerSchema(wanted.schema);
    case "regex":
      return { rules: new Map([["root", lowerRegex(wanted.text)]]), root: "root" };
    case "grammar":
      return lowerGrammar(wanted.text, wanted.syntax ?? undefined);
  }
}

/** What was used last, as much as is kept. */
class Kept<T> {
  private readonly most: number;
  private readonly all = new Map<string, T>();

  constructor(most: number) {
    this.most = most;
  }

  /** What is kept by a key, or else made. */
  of(key: string, make: () => T): T {
    const found = this.all.get(key) ?? make();
    this.all.delete(key);
    this.all.set(key, found);
    for (const oldest of this.all.keys()) {
      if (this.all.size <= this.most) break;
      this.all.delete(oldest);
    }
    return found;
  }
}
