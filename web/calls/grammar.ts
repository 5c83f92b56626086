/**
 * What a model has to write where it calls tools: a grammar of each format's calls. As in Python's `calls/grammar.py`.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { textsWithout } from "../grammar/avoiding.ts";
import { plain } from "../grammar/escapes.ts";
import { type Grammar, type Node, simplified } from "../grammar/nodes.ts";
import { EVERY } from "../grammar/ranges.ts";
import {
  literal,
  choice as oneOf,
  optional,
  repeat,
  rule,
  sequence,
} from "../grammar/schema/anything.ts";
import { argumentsOf } from "./arguments.ts";
import type { Format, Spelling } from "./format.ts";
import { refused } from "./refusing.ts";
import { isName, type Tools } from "./source.ts";

const PRINT = "print";
const ALPHANUMERIC: Node = {
  kind: "chars",
  ranges: [
    [48, 57],
    [65, 90],
    [97, 122],
  ],
};

/** The texts of calls. */
export interface CallGrammar {
  /** Of what follows a trigger; without triggers, of the answer, its thoughts left out. */
  readonly grammar: Grammar;
  /**
   * Texts after which the grammar holds. None with choices other than `auto`, and where a format has no mark that tells
   * a call.
   */
  readonly triggers: readonly string[];
  /** `free` where text may follow the calls, and further triggers; else `end`. */
  readonly after: "free" | "end";
}

export interface CallOptions {
  /**
   * With `auto` a call may follow each trigger, with `required` the answer is one call or several, with `named` it is
   * one call of the tool `name`.
   */
  readonly choice: "auto" | "required" | "named";
  readonly name?: string | null;
  /** There may be several calls, which is so where nothing is said. */
  readonly parallel?: boolean;
}

/**
 * The grammar of the calls that an answer may have, or has to be.
 *
 * Whatever it allows is read by the format's parser as calls of tools, with arguments that are valid under the tool's
 * schema.
 *
 * @param tools JSON schemas of the arguments of tools, by name.
 * @throws EdgewiseError `input.tool_choice` where there is no such tool; `input.schema`; `unsupported.tool_choice` for
 *   names and schemas that the format cannot write; `unsupported.schema`.
 */
export function callGrammar(form: Format, tools: Tools, options: CallOptions): CallGrammar {
  const { choice, name = null, parallel = true } = options;
  const known = choice === "named" && name !== null ? [name] : Object.keys(tools);
  if (known.length === 0 || known.some((each) => !Object.hasOwn(tools, each))) {
    throw new EdgewiseError(
      "input.tool_choice",
      known.length > 0 ? `There is no tool ${shorten(name)} to call.` : "There is no tool to call.",
      "Pass tools.",
    );
  }
  const { spelling } = form;
  const rules = new Map<string, Node>([["root", sequence()]]);
  rules.set("call", anyCall(form, known, tools, rules));
  const free =
    choice === "auto" && spelling.after === "free" && parallel && form.triggers.length > 0;
  const again = parallel && choice !== "named" && !free;
  const start = spelling.first + spelling.begin;
  let triggers = choice === "auto" ? form.triggers : [];
  // After any of these texts the same has to follow: of those that a call begins with, only one.
  const begins = triggers.find((trigger) => start.startsWith(trigger));
  if (begins) triggers = [begins];
  const parts = callsOf(spelling, start.slice(begins?.length ?? 0), again);
  if (choice !== "auto" && spelling.thought) parts.unshift(thought(spelling.thought));
  rules.set("root", simplified(sequence(...parts)));
  return { grammar: { rules, root: "root" }, triggers, after: free ? "free" : "end" };
}

/** Calls from the text on that the first begins with. */
function callsOf(spelling: Spelling, start: string, again: boolean): Node[] {
  const call = rule("call");
  const parts = [...literals(start), call];
  if (again) {
    const between = literals(spelling.between + spelling.begin);
    parts.push(repeat(sequence(...between, call), 0, null));
  }
  parts.push(...literals(spelling.last));
  if (spelling.close) parts.push(optional(literal(spelling.close)));
  return parts;
}

/** A text, perhaps empty, as items of a sequence. */
function literals(text: string): Node[] {
  return text ? [literal(text)] : [];
}

/** A call of one of some tools, from its name on. */
function anyCall(
  form: Format,
  known: readonly string[],
  tools: Tools,
  rules: Map<string, Node>,
): Node {
  const { spelling } = form;
  const found = known.map((name, at) => {
    if (!isName(name) || (spelling.arguments === "python" && name === PRINT)) {
      throw refused(`A tool is called ${shorten(name)}, which ${form.name} cannot write.`);
    }
    const tool = { name, schema: tools[name] ?? {}, prefix: `t${at}_` };
    const args = argumentsOf(tool, spelling, rules);
    const begin = [literal(name), ...idOf(spelling.id), ...literals(spelling.named)];
    return simplified(sequence(...begin, args, ...literals(spelling.end)));
  });
  return oneOf(found);
}

/** An id that may be given, where there is a mark for it. */
function idOf(mark: string): Node[] {
  return mark ? [optional(sequence(literal(mark), repeat(ALPHANUMERIC, 9, 9)))] : [];
}

/** A thought that may come first. */
function thought([begin, avoided, end]: readonly [string, string, string]): Node {
  const text = textsWithout(avoided, EVERY, plain);
  return optional(sequence(literal(begin), text, literal(end)));
}
