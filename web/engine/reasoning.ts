/** Whether, how hard and how long a model thinks before it answers. */

import type { Message } from "../client/types.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { isTable } from "./plain.ts";

export const EFFORTS = ["minimal", "low", "medium", "high", "xhigh"] as const;
export type Effort = (typeof EFFORTS)[number];

const MAX_BUDGET = 2 ** 31 - 1;
const KNOWN = ["enabled", "effort", "budget"];
const SWITCHES = ["enable_thinking", "thinking"];
const EFFORT = "reasoning_effort";
const QUESTION: readonly Message[] = [{ role: "user", content: "?" }];
const CODE = "input.reasoning";
const WORDS = new Map<string, Readonly<Record<string, unknown>>>([
  ["on", { enabled: true }],
  ["off", { enabled: false }],
  ["none", { enabled: false }],
  ...EFFORTS.map((effort): [string, { readonly effort: Effort }] => [effort, { effort }]),
]);

/** What is asked of a model's thoughts; null leaves it to the model. */
export interface Reasoning {
  /** Whether it thinks. */
  readonly enabled: boolean | null;
  /** How hard. */
  readonly effort: Effort | null;
  /** Tokens of its thoughts at most, after which they are closed. */
  readonly budget: number | null;
}

type Variables = Readonly<Record<string, unknown>>;
/** Returns the prompt of messages, given variables of the template. */
type Render = (messages: readonly Message[], variables: Variables) => string;

/**
 * Read and check the option `reasoning`: true or `on`; false, `off` or `none`; an effort; a budget in
 * tokens; an object with several of them; or nothing, to leave it to the model.
 *
 * @throws EdgewiseError `input.reasoning`.
 */
export function reasoningOf(value: unknown): Reasoning {
  const given = spelledOut(value);
  if (!isTable(given)) {
    throw wrong("", value, "on, off, an effort, a budget in tokens, or several in an object");
  }
  const other = Object.keys(given).find((name) => !KNOWN.includes(name));
  if (other !== undefined) {
    throw new EdgewiseError(
      CODE,
      `reasoning has no ${shorten(other)}.`,
      `There are ${KNOWN.join(", ")}.`,
    );
  }
  const enabled: unknown = given.enabled ?? null;
  const effort = EFFORTS.find((one) => one === given.effort) ?? null;
  const budget: unknown = given.budget ?? null;
  if (enabled !== null && typeof enabled !== "boolean") {
    throw wrong(".enabled", enabled, "true or false");
  }
  if ((given.effort ?? null) !== effort) {
    throw wrong(".effort", given.effort, `one of ${EFFORTS.join(", ")}`);
  }
  if (budget !== null && !isBudget(budget)) {
    throw wrong(".budget", budget, `a whole number of tokens from 0 to ${MAX_BUDGET}`);
  }
  if (enabled === false && (effort !== null || budget !== null)) {
    throw new EdgewiseError(
      CODE,
      "reasoning is off, and has an effort or a budget.",
      "Leave one of them out.",
    );
  }
  return { enabled, effort, budget };
}

/**
 * The variables of a chat template that ask for it.
 *
 * @param render of the template, which is asked what difference they make.
 * @throws EdgewiseError `unsupported.reasoning` where they make none.
 */
export function variablesOf({ enabled, effort }: Reasoning, render: Render): Variables {
  const same = (one: Variables, other: Variables) =>
    promptOf(render, one) === promptOf(render, other);
  let variables: Variables = {};
  if (enabled !== null) {
    if (same(switched(true), switched(false))) {
      throw unsupported(`no switch for thoughts, and reasoning.enabled is ${enabled}`);
    }
    variables = switched(enabled);
  }
  if (effort === null) return variables;
  const others = EFFORTS.filter((one) => one !== effort);
  if (others.every((other) => same({ [EFFORT]: effort }, { [EFFORT]: other }))) {
    throw unsupported(`no effort of thoughts, and reasoning.effort is ${shorten(effort)}`);
  }
  return { ...variables, [EFFORT]: effort };
}

function spelledOut(value: unknown): unknown {
  if (value === null || value === undefined) return {};
  if (typeof value === "boolean") return { enabled: value };
  if (typeof value === "number") return { budget: value };
  return typeof value === "string" ? WORDS.get(value) : value;
}

/** A switch has one of two names, and the other one is not read. */
function switched(on: boolean): Variables {
  return Object.fromEntries(SWITCHES.map((name) => [name, on]));
}

/** A short prompt; null where the template refuses it. */
function promptOf(render: Render, variables: Variables): string | null {
  try {
    return render(QUESTION, variables);
  } catch (error) {
    if (error instanceof EdgewiseError) return null;
    throw error;
  }
}

function isBudget(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MAX_BUDGET;
}

function wrong(name: string, value: unknown, wanted: string): EdgewiseError {
  return new EdgewiseError(CODE, `reasoning${name} is ${shorten(value)}; it must be ${wanted}.`);
}

function unsupported(what: string): EdgewiseError {
  return new EdgewiseError(
    "unsupported.reasoning",
    `The model's chat template has ${what}.`,
    "Leave it out, or use another model.",
  );
}
