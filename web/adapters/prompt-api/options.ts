/** What a session is made with. */

import type { ChatOptions, ToolDefinition } from "../../client/types.ts";
import { shorten } from "../../errors.ts";
import { refused } from "./errors.ts";
import { tableOf } from "./input.ts";
import type {
  LanguageModelCreateCoreOptions,
  LanguageModelExpected,
  LanguageModelSamplingMode,
  LanguageModelTool,
} from "./types.ts";

const MAX_TEMPERATURE = 2;
const MAX_TOP_K = 2 ** 31 - 1;

/** `balanced` is what the model's publisher says. */
const SAMPLING: Readonly<Record<LanguageModelSamplingMode, Pick<ChatOptions, "temperature">>> = {
  "most-predictable": { temperature: 0 },
  predictable: { temperature: 0.4 },
  balanced: {},
  creative: { temperature: 1.1 },
  "most-creative": { temperature: 1.4 },
};

/** Types of content, and which of them there are on the way in, and on the way out. */
const TYPES: ReadonlyMap<unknown, { readonly input: boolean; readonly output: boolean }> = new Map([
  ["text", { input: true, output: true }],
  ["image", { input: false, output: false }],
  ["audio", { input: false, output: false }],
  ["tool-call", { input: false, output: true }],
  ["tool-response", { input: true, output: false }],
]);

/** What every answer of a session is asked with. */
export interface Settings {
  readonly samplingMode: LanguageModelSamplingMode;
  readonly sampling: Pick<ChatOptions, "temperature" | "topK">;
  readonly tools: ReadonlyMap<string, LanguageModelTool>;
}

/**
 * Whether all that is expected is there.
 *
 * @throws TypeError for a type that is none, RangeError for a language tag that is none.
 */
export function supported(options: LanguageModelCreateCoreOptions): boolean {
  const { expectedInputs = [], expectedOutputs = [] } = options;
  const inputs = expectedInputs.map((one) => known(one).input);
  const outputs = expectedOutputs.map((one) => known(one).output);
  return [...inputs, ...outputs].every(Boolean);
}

/** @throws TypeError, RangeError, and NotSupportedError for what is expected and is not there. */
export function settingsOf(options: LanguageModelCreateCoreOptions): Settings {
  if (!supported(options)) throw refused("Only text is read and written, and tools are called.");
  const { samplingMode, temperature, topK, tools = [] } = options;
  if (samplingMode !== undefined && !Object.hasOwn(SAMPLING, samplingMode)) {
    throw new TypeError(`samplingMode is ${shorten(samplingMode)}.`);
  }
  if (samplingMode !== undefined && (temperature !== undefined || topK !== undefined)) {
    throw new TypeError("samplingMode and temperature or topK exclude one another.");
  }
  const mode = samplingMode ?? "balanced";
  const sampling = {
    ...SAMPLING[mode],
    ...(temperature === undefined
      ? {}
      : { temperature: bounded("temperature", temperature, 0, MAX_TEMPERATURE) }),
    ...(topK === undefined ? {} : { topK: bounded("topK", Math.trunc(topK), 1, MAX_TOP_K) }),
  };
  const named = tools.map((tool) => [checked(tool).name, tool] as const);
  return { samplingMode: mode, sampling, tools: new Map(named) };
}

/** The tools as the engine is told of them. */
export function offered({ tools: given }: Settings): Pick<ChatOptions, "tools"> {
  const tools = [...given.values()].map(({ name, description, inputSchema }): ToolDefinition => {
    const parameters = inputSchema as Readonly<Record<string, unknown>>;
    return { type: "function", function: { name, description, parameters } };
  });
  return tools.length === 0 ? {} : { tools };
}

function known(expected: LanguageModelExpected) {
  const { type, languages = [] } = expected;
  const found = TYPES.get(type);
  if (!found) throw new TypeError(`There is no content of type ${shorten(type)}.`);
  Intl.getCanonicalLocales([...languages]);
  return found;
}

function bounded(name: string, value: number, least: number, most: number): number {
  if (value >= least) return Math.min(value, most);
  throw new RangeError(`${name} is ${shorten(value)}; it must be ${least} or more.`);
}

function checked(tool: LanguageModelTool): LanguageModelTool {
  const { name, description, inputSchema, execute } = tableOf(tool, "A tool");
  if (typeof name !== "string" || typeof description !== "string") {
    throw new TypeError(`A tool has the name ${shorten(name)} and needs a description.`);
  }
  tableOf(inputSchema, `The inputSchema of ${shorten(name)}`);
  if (typeof execute !== "function") throw new TypeError(`${shorten(name)} has no execute.`);
  return tool;
}
