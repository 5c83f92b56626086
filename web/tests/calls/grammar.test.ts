/** Tools become the grammars that they become in Python, and the same tools are refused. */

import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { formatNamed } from "../../calls/formats.ts";
import { type CallOptions, callGrammar } from "../../calls/grammar.ts";
import type { Tools } from "../../calls/source.ts";
import { toJson } from "../../grammar/nodes.ts";
import { expected, hashed, type Outcome, outcome } from "../grammar/cases.ts";
import { cut, formats, parsed } from "./cases.ts";

interface GrammarCase extends Outcome {
  readonly format: string;
  readonly tools: string;
  readonly choice: CallOptions["choice"];
  readonly parallel: boolean;
}

/** A text that a grammar has, and the names and arguments of the calls in it. */
interface Text {
  readonly format: string;
  readonly tools: string;
  readonly text: string;
  readonly calls: readonly (readonly [string, string])[];
}

/** Tools, and what becomes of them by format. */
interface HardCase {
  readonly tools: Tools;
  readonly outcomes: Readonly<Record<string, Outcome>>;
}

const FOLDER = new URL("../../../tests/calls/grammars/", import.meta.url);
const TOOLS: Readonly<Record<string, Tools>> = read("tools.json");
const CASES: readonly GrammarCase[] = read("cases.json");
const HARD: readonly HardCase[] = read("hard.json");
const TEXTS: readonly Text[] = read("texts.json");

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
}

function made(given: Omit<GrammarCase, "tools">, tools: Tools): Outcome {
  const { format, choice, parallel } = given;
  const name = choice === "named" ? (Object.keys(tools)[0] ?? null) : null;
  return outcome(() => {
    const options = { choice, name, parallel };
    const { grammar, triggers, after } = callGrammar(formatNamed(format), tools, options);
    const rules = [...grammar.rules].map(([rule, node]) => [rule, toJson(node)]);
    return [grammar.root, Object.fromEntries(rules), triggers, after];
  });
}

describe.each(formats)("%s", (format) => {
  const cases = CASES.filter((given) => given.format === format);
  it.each(cases.map((given) => [`${given.choice}: ${given.tools}`, given] as const))(
    "becomes what it does in Python: %s",
    (_, given) => {
      const here = made(given, TOOLS[given.tools] ?? {});
      expect(typeof given.json === "string" ? hashed(here) : here).toEqual(expected(given));
    },
  );
});

test.each(TEXTS.map((given) => [given.format, given.tools, given] as const))(
  "a text of a grammar is read as calls: %s, %s",
  (format, named, { text, calls }) => {
    const found: string[][] = [];
    for (const delta of parsed({ format, text, tools: TOOLS[named] ?? {} }, cut(text, [7, 1, 3]))) {
      if (delta.kind === "call begins") found.push([delta.name]);
      else if (delta.kind === "arguments") found.at(-1)?.push(delta.text);
      else expect(["call ends", "reasoning"]).toContain(delta.kind);
    }
    expect(found).toEqual(calls);
  },
);

test.each(["qwen3_coder", "gemma", "gemma4"])(
  `${HARD.length} tools at random become what they do in Python: %s`,
  (format) => {
    const unlike = HARD.filter(({ tools, outcomes }) => {
      const here = hashed(made({ format, choice: "required", parallel: true }, tools));
      const there = expected(outcomes[format] ?? {});
      return here.json !== there.json || here.error !== there.error;
    });
    expect(unlike).toEqual([]);
  },
);

test("every format has cases", () => {
  expect(new Set(CASES.map(({ format }) => format))).toEqual(new Set(formats));
});

test.each(["f", "toString", "constructor"])("there has to be a tool: %s", (name) => {
  const tools = TOOLS["one tool"] ?? {};
  const form = formatNamed("hermes");
  expect(() => callGrammar(form, tools, { choice: "named", name })).toThrow(/no tool/);
  expect(() => callGrammar(form, {}, { choice: "required" })).toThrow(/no tool/);
});
