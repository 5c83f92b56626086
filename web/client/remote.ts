/** A model that the host runs, with the interface of one that runs here. */

import { EdgewiseError, shorten } from "../errors.ts";
import { Pieces } from "./generation.ts";
import type { Choice } from "./host-messages.ts";
import { OPTION_NAMES } from "./lend-options.ts";
import { at, type HostOptions } from "./opening.ts";
import { HostSocket } from "./socket.ts";
import type {
  ChatOptions,
  ChoicesOptions,
  Completion,
  EngineInfo,
  GenerateOptions,
  Generation,
  Message,
} from "./types.ts";

/** What there is to know of a model wherever it runs. */
export type ModelFacts = Pick<
  EngineInfo,
  "name" | "family" | "quant" | "context" | "tokenizer" | "thinking"
>;

/** What answers, here or elsewhere: `Engine` and `RemoteEngine`. */
export interface AnyEngine {
  readonly info: ModelFacts;
  chat(messages: readonly Message[], options?: ChatOptions): Generation;
  generate(prompt: string | readonly number[], options?: GenerateOptions): Generation;
  /** Several answers to one prompt, by engines that give them: those of tabs. */
  choices?(prompt: readonly Message[], options: ChoicesOptions): readonly Generation[];
  close(): Promise<void>;
}

export interface RemoteOptions extends HostOptions {
  /** Its name at the host; by default the first that the host has. */
  readonly model?: string;
}

/**
 * A model of the host, asked over a WebSocket.
 *
 *     const engine = await RemoteEngine.connect();
 *     for await (const text of engine.chat([{ role: "user", content: "Hello" }])) show(text);
 *
 * Several generations may run at once. A connection that breaks is opened again, and what was being written goes on.
 * Errors are `EdgewiseError`s: `host.gone`, `host.key`, `host.wrong`, and what the host's engine says.
 */
export class RemoteEngine implements AnyEngine {
  readonly info: ModelFacts;
  private readonly socket: HostSocket;

  /** @param told of a model that the host has, where that is known already; see `connect`. */
  constructor(told: Partial<ModelFacts> & { readonly name: string }, options: HostOptions = {}) {
    this.info = factsOf(told);
    this.socket = new HostSocket(options);
  }

  /**
   * The host's model, as the host tells of it.
   *
   * @throws EdgewiseError `host.gone`, `host.wrong`, `host.model` where it has no such model.
   */
  static async connect({ model, ...options }: RemoteOptions = {}): Promise<RemoteEngine> {
    const url = at(options, "/api/bundles");
    const answer = await fetch(url).catch((cause: unknown) => {
      throw EdgewiseError.from(cause, "host.gone", `The host at ${url.host} does not answer`);
    });
    if (!answer.ok) {
      throw new EdgewiseError("host.gone", `The host at ${url.host} answers ${answer.status}.`);
    }
    const listed: unknown = await answer.json().catch(() => null);
    const { bundles, answers } = listedOf(listed);
    const name = model ?? answers[0];
    if (name === undefined || !answers.includes(name)) {
      throw new EdgewiseError(
        "host.model",
        `The host at ${url.host} answers for ${answers.join(", ") || "no model"}, not for ${shorten(name)}.`,
        "Name one of those, or start the host without --no-api.",
      );
    }
    const found = bundles.find((bundle) => bundle.name === name);
    return new RemoteEngine({ ...found, name }, options);
  }

  /** Answer a conversation, written down as the model's chat template says. */
  chat(messages: readonly Message[], options: ChatOptions = {}): Generation {
    const { variables, ...others } = options;
    return this.start({ type: "chat", messages, ...(variables && { variables }) }, others);
  }

  /** Go on from a text, or from token ids. */
  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    return this.start({ type: "generate", prompt }, options);
  }

  /** End what runs, and the connection. Closing twice is fine. */
  async close(): Promise<void> {
    this.socket.close();
  }

  private start(message: Readonly<Record<string, unknown>>, options: ChatOptions): Generation {
    const { signal, tools, ...others } = options;
    const begun = "begun" in others ? (others.begun ?? []) : [];
    return new Pieces((onDeltas) => {
      const tokens: number[] = [];
      let stop: () => void = () => {};
      const completion = new Promise<Completion>((resolve, reject) => {
        const asked = {
          ...message,
          model: this.info.name,
          options: wireOptions(others),
          ...(tools && { tools }),
        };
        stop = this.socket.start(asked, {
          onPiece(deltas, came) {
            onDeltas(deltas, tokens.length === 0 ? [...begun, ...came] : came);
            tokens.push(...came);
          },
          onDone: (choice) => resolve(completionOf(choice, [...begun, ...tokens])),
          onError: reject,
        });
      });
      if (signal?.aborted) stop();
      signal?.addEventListener("abort", stop, { once: true });
      const over = () => signal?.removeEventListener("abort", stop);
      completion.then(over, over);
      return { completion, stop: () => stop() };
    });
  }
}

/** Options by the protocol's names. */
function wireOptions(options: ChatOptions): Readonly<Record<string, unknown>> {
  const named = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    named.map(([name, value]) => {
      const wire = OPTION_NAMES.get(name);
      if (wire === undefined || wire === "tool_format") {
        throw new EdgewiseError(
          "unsupported.remote",
          `${name} is ${shorten(value)}, which cannot be asked of a host.`,
          `Leave out ${name}.`,
        );
      }
      return [wire, wire === "seed" ? seedOf(value) : value];
    }),
  );
}

function seedOf(value: unknown): unknown {
  if (typeof value !== "bigint") return value;
  if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new EdgewiseError(
    "unsupported.remote",
    `seed is ${value}; JSON's numbers here hold less than 2^53.`,
    "Take a smaller one.",
  );
}

function completionOf(choice: Choice | null, tokenIds: readonly number[]): Completion {
  const seconds = (name: string) => choice?.timings[name] ?? 0;
  const { prompt = 0, completion = 0, cached = 0 } = choice?.usage ?? {};
  const text = choice?.text ?? "";
  return {
    text,
    reasoning: choice?.reasoning ?? "",
    toolCalls: (choice?.calls ?? []).map(({ id, name, arguments: given }) => ({
      id,
      name,
      text: given,
      arguments: JSON.parse(given),
    })),
    written: text,
    tokenIds,
    // Time is what the host ends an answer by; what there is of it is cut off as by a length.
    finishReason:
      choice === null ? "cancelled" : choice.reason === "timeout" ? "length" : choice.reason,
    usage: {
      promptTokens: prompt,
      completionTokens: completion,
      cachedTokens: cached,
      totalTokens: prompt + completion,
    },
    timings: {
      ttftMs: 1000 * seconds("ttft_s"),
      prefillMs: 1000 * seconds("prefill_s"),
      decodeMs: 1000 * seconds("decode_s"),
      prefillTokensPerSecond: seconds("prefill_tokens_per_s"),
      decodeTokensPerSecond: seconds("decode_tokens_per_s"),
      decodeTokens: Math.max(completion - 1, 0),
    },
    seed: choice?.seed ?? "0",
    contextFull: choice?.contextFull ?? false,
    droppedTurns: choice?.droppedTurns ?? 0,
  };
}

function listedOf(value: unknown) {
  const listed = typeof value === "object" && value !== null ? value : {};
  const bundles: unknown = "bundles" in listed ? listed.bundles : [];
  const answers: unknown = "answers" in listed ? listed.answers : [];
  return {
    bundles: (Array.isArray(bundles) ? bundles : []) as readonly Partial<ModelFacts>[],
    answers: Array.isArray(answers) ? answers.filter((name) => typeof name === "string") : [],
  };
}

/** What the host tells of a model; its context is unknown where it is not one for browsers. */
function factsOf({ name, ...told }: Partial<ModelFacts> & { readonly name: string }): ModelFacts {
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return {
    name,
    family: text(told.family),
    quant: text(told.quant),
    context: typeof told.context === "number" ? told.context : Number.POSITIVE_INFINITY,
    tokenizer: text(told.tokenizer) || `of ${name}`,
    thinking: null,
  };
}
