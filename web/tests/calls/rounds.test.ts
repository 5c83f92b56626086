/** Calls that a chat template writes into a conversation are read back as the same calls. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Tools } from "../../calls/source.ts";
import type { Message } from "../../client/types.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { withCalls } from "../../engine/tool-calls.ts";
import { cut, parsed } from "./cases.ts";

interface Round {
  readonly template: string;
  readonly source: string;
  readonly format: string;
  readonly messages: readonly Message[];
  /** What the template makes of the first message, with an open turn. */
  readonly prompt: string;
  /** What it makes of all. */
  readonly whole: string;
  /** The calls in it, as a model writes them. */
  readonly said: string;
  readonly calls: readonly (readonly [string, unknown])[];
}

const FILE = new URL("../../../tests/calls/grammars/rounds.json", import.meta.url);
const { tools, rounds }: { readonly tools: Tools; readonly rounds: readonly Round[] } = JSON.parse(
  readFileSync(FILE, "utf8"),
);
const SPECIAL_TOKENS = new Map([
  ["bos_token", "<s>"],
  ["eos_token", "</s>"],
]);

test.each(rounds.map((given) => [given.template, given.calls.length, given] as const))(
  "%s renders a conversation with calls (%i) as in Python",
  (_, __, { source, messages, prompt, whole }) => {
    const template = new ChatTemplate(source, SPECIAL_TOKENS);
    const described = Object.entries(tools).map(([name, parameters]) => ({
      type: "function",
      function: { name, description: name, parameters },
    }));
    const open = { tools: described, addGenerationPrompt: true };
    expect(template.render(messages.slice(0, 1), open)).toBe(prompt);
    const given = withCalls(messages, template.callForm);
    expect(template.render(given, { ...open, addGenerationPrompt: false })).toBe(whole);
  },
);

test.each(rounds.map((given) => [given.template, given.calls.length, given] as const))(
  "what %s renders of calls (%i) is read as the same",
  (_, __, { format, said, calls }) => {
    for (const size of [1, 7, 1000]) {
      const found: [string, unknown][] = [];
      for (const delta of parsed({ format, text: said, tools }, cut(said, [size]))) {
        if (delta.kind === "call begins") found.push([delta.name, null]);
        else if (delta.kind === "arguments") (found.at(-1) ?? [])[1] = JSON.parse(delta.text);
        else expect(delta.kind).toBe("call ends");
      }
      expect(found).toEqual(calls);
    }
  },
);
