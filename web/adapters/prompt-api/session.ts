/** A session of the Prompt API: a conversation, and what is asked in it one after the other. */

import { answerMessage, toolResult } from "../../client/messages.ts";
import type { AnyEngine } from "../../client/remote.ts";
import type { CalledTool, ChatOptions, Completion, Message } from "../../client/types.ts";
import { shorten } from "../../errors.ts";
import { type Constrained, constrained } from "./constraint.ts";
import { quotaExceeded } from "./errors.ts";
import { inputOf } from "./input.ts";
import { offered, type Settings } from "./options.ts";
import { charactersOf, estimated, read, tooLong } from "./tokens.ts";
import type {
  LanguageModelAppendOptions,
  LanguageModelCloneOptions,
  LanguageModelPrompt,
  LanguageModelPromptOptions,
  LanguageModelSamplingMode,
} from "./types.ts";
import { until } from "./until.ts";

/** Times that one answer may call tools before it is taken for one that never ends. */
const MOST_ROUNDS = 16;
/** The part of the context that an answer may expect to be left for it. */
const ANSWER = 1 / 4;

/** What was said at once, and its tokens. */
interface Turn {
  readonly messages: readonly Message[];
  readonly tokens: number;
}

/** What a session knows; a clone begins with the same. */
export interface State {
  readonly engine: AnyEngine;
  readonly settings: Settings;
  readonly initial: readonly Message[];
  readonly turns: readonly Turn[];
  readonly usage: number;
}

/** Whoever has this makes sessions. */
export const KEY = Symbol("makes sessions");

type Handler = ((event: Event) => unknown) | null;

export class LanguageModel extends EventTarget {
  oncontextoverflow: Handler = null;
  onquotaoverflow: Handler = null;
  readonly [Symbol.toStringTag] = "LanguageModel";
  private readonly ending = new AbortController();
  private state: State;
  private last: Promise<unknown> = Promise.resolve();

  /** Not for pages, which call `LanguageModel.create()`. */
  constructor(key: symbol, state: State) {
    if (key !== KEY) throw new TypeError("Illegal constructor");
    super();
    this.state = state;
    this.addEventListener("contextoverflow", (event) => this.oncontextoverflow?.(event));
    this.addEventListener("quotaoverflow", (event) => this.onquotaoverflow?.(event));
  }

  /** Tokens of the conversation so far. */
  get contextUsage(): number {
    return this.state.usage;
  }

  /** Tokens that there may be. */
  get contextWindow(): number {
    return this.state.engine.info.context;
  }

  get inputUsage(): number {
    return this.contextUsage;
  }

  get inputQuota(): number {
    return this.contextWindow;
  }

  get samplingMode(): LanguageModelSamplingMode {
    return this.state.settings.samplingMode;
  }

  /**
   * The answer. What is asked while another answer comes waits for it.
   *
   * @throws DOMException by the specification's names, TypeError; see `promptStreaming`.
   */
  async prompt(
    input: LanguageModelPrompt,
    options: LanguageModelPromptOptions = {},
  ): Promise<string> {
    const pieces: string[] = [];
    await this.asked(input, options, [], (piece) => pieces.push(piece));
    return pieces.join("");
  }

  /** The answer's pieces as they come; whoever cancels the stream takes the question back. */
  promptStreaming(
    input: LanguageModelPrompt,
    options: LanguageModelPromptOptions = {},
  ): ReadableStream<string> {
    const cancelled = new AbortController();
    return new ReadableStream<string>({
      start: (controller) => {
        const onPiece = (piece: string) => {
          if (!cancelled.signal.aborted) controller.enqueue(piece);
        };
        this.asked(input, options, [cancelled.signal], onPiece).then(
          () => {
            if (!cancelled.signal.aborted) controller.close();
          },
          (error: unknown) => controller.error(error), // does nothing to a cancelled one
        );
      },
      cancel: (reason: unknown) => cancelled.abort(reason),
    });
  }

  /** Add messages that no answer follows, and have them read already. */
  async append(
    input: LanguageModelPrompt,
    options: LanguageModelAppendOptions = {},
  ): Promise<undefined> {
    const { messages } = inputOf(input);
    await this.inTurn([options.signal], async (signal) => {
      await this.fitted(messages, signal);
      const tokens = await this.tokensOf(this.conversation(messages), signal);
      if (tokens === null) throw await this.exceeded(messages, signal);
      this.keep(messages, tokens);
    });
  }

  /** Tokens that a prompt takes: of one that is too long for the context, about so many. */
  async measureContextUsage(
    input: LanguageModelPrompt,
    options: LanguageModelPromptOptions = {},
  ): Promise<number> {
    const { messages } = constrained(inputOf(input, true), options);
    return this.during([options.signal], async (signal) => {
      const { engine } = this.state;
      return (await read(engine, messages, {}, signal)) ?? estimated(engine, messages, signal);
    });
  }

  measureInputUsage(
    input: LanguageModelPrompt,
    options: LanguageModelPromptOptions = {},
  ): Promise<number> {
    return this.measureContextUsage(input, options);
  }

  /** Another session that knows what this one knows now. */
  clone(options: LanguageModelCloneOptions = {}): Promise<LanguageModel> {
    const Same = this.constructor as typeof LanguageModel;
    return this.during([options.signal], async () => new Same(KEY, this.state));
  }

  /** End what is asked; the model stays for other sessions. */
  destroy(): undefined {
    this.end(new DOMException("The session is destroyed.", "InvalidStateError"));
  }

  /** Not for pages: end it for a reason of theirs. */
  end(reason: unknown): void {
    this.ending.abort(reason);
  }

  private async asked(
    input: LanguageModelPrompt,
    options: LanguageModelPromptOptions,
    signals: readonly AbortSignal[],
    onPiece: (piece: string) => void,
  ): Promise<void> {
    const question = constrained(inputOf(input, true), options);
    await this.inTurn([options.signal, ...signals], async (signal) => {
      await this.fitted(question.messages, signal);
      await this.answered(question, signal, onPiece);
    });
  }

  private async answered(
    { messages, prefix, responseFormat, whole }: Constrained,
    signal: AbortSignal,
    onPiece: (piece: string) => void,
  ): Promise<void> {
    const { engine, settings } = this.state;
    const window = this.contextWindow;
    const options: ChatOptions = {
      ...settings.sampling,
      ...offered(settings),
      ...(Number.isFinite(window) ? { maxTokens: window } : {}), // until the context ends
      ...(responseFormat ? { responseFormat } : {}),
      signal,
    };
    const said = [...messages];
    let hidden = prefix.length;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const generation = engine.chat(this.conversation(said), options);
      let completion: Completion;
      try {
        for await (const piece of generation) {
          const shown = piece.slice(hidden);
          hidden = Math.max(hidden - piece.length, 0);
          if (shown !== "") onPiece(shown);
        }
        completion = await generation.completion;
      } catch (error) {
        throw tooLong(error) ? await this.exceeded(messages, signal) : error;
      }
      signal.throwIfAborted();
      if (whole && completion.finishReason === "length") {
        const message = "The context ended before the answer was what responseConstraint says.";
        throw new DOMException(message, "SyntaxError");
      }
      said.push(answerMessage(completion));
      const { toolCalls, usage } = completion;
      if (toolCalls.length === 0) return this.keep(said, usage.totalTokens);
      said.push(...(await Promise.all(toolCalls.map((call) => this.called(call)))));
      signal.throwIfAborted();
    }
    throw new DOMException(`The answer called tools ${MOST_ROUNDS} times.`, "UnknownError");
  }

  private async called(call: CalledTool): Promise<Message> {
    const tool = this.state.settings.tools.get(call.name);
    if (!tool) return toolResult(call, `There is no tool ${shorten(call.name)}.`);
    return toolResult(call, await tool.execute(call.arguments));
  }

  /**
   * Make room for messages and an answer: the oldest turns go, the initial prompts stay.
   *
   * @throws QuotaExceededError where that is not enough; nothing has gone then.
   */
  private async fitted(messages: readonly Message[], signal: AbortSignal): Promise<void> {
    const { turns, usage } = this.state;
    const window = this.contextWindow;
    if (usage > 0 && messages[0]?.role === "system") {
      throw new TypeError("A system prompt comes before all that a session has read.");
    }
    const wanted = window - Math.floor(window * ANSWER);
    if (usage + charactersOf(messages) <= wanted) return;
    let dropped = 0;
    let gone = 0;
    const tokensWithout = () =>
      this.tokensOf([...this.conversation([], dropped), ...messages], signal);
    let tokens = await tokensWithout();
    while (dropped < turns.length && (tokens === null || tokens > wanted)) {
      const { tokens: freed } = turns[dropped++] as Turn;
      gone += freed;
      tokens = tokens === null ? await tokensWithout() : tokens - freed;
    }
    if (tokens === null || tokens >= window) throw await this.exceeded(messages, signal);
    if (dropped === 0) return;
    this.state = { ...this.state, turns: turns.slice(dropped), usage: Math.max(usage - gone, 0) };
    this.dispatchEvent(new Event("contextoverflow"));
    this.dispatchEvent(new Event("quotaoverflow"));
  }

  private async exceeded(messages: readonly Message[], signal: AbortSignal): Promise<DOMException> {
    const { engine, usage } = this.state;
    const own = (await read(engine, messages, {}, signal)) ?? 0;
    const requested = own > 0 ? usage + own : await estimated(engine, messages, signal);
    return quotaExceeded(Math.max(requested, this.contextWindow + 1), this.contextWindow);
  }

  private conversation(said: readonly Message[], dropped = 0): Message[] {
    const { initial, turns } = this.state;
    return [...initial, ...turns.slice(dropped).flatMap(({ messages }) => messages), ...said];
  }

  private tokensOf(messages: readonly Message[], signal: AbortSignal): Promise<number | null> {
    return read(this.state.engine, messages, offered(this.state.settings), signal);
  }

  private keep(messages: readonly Message[], usage: number): void {
    const { state } = this;
    const turn = { messages, tokens: Math.max(usage - state.usage, 0) };
    this.state = { ...state, turns: [...state.turns, turn], usage };
  }

  /** What waits for all that was asked before. */
  private inTurn<T>(
    signals: readonly (AbortSignal | undefined)[],
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const before = this.last;
    return this.during(signals, (signal) => {
      const mine = before.then(() => {
        signal.throwIfAborted();
        return work(signal);
      });
      this.last = mine.catch(() => {});
      return mine;
    });
  }

  /** What ends with the session, and with any of the signals, for their reasons. */
  private during<T>(
    signals: readonly (AbortSignal | undefined)[],
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const given = signals.filter((signal) => signal !== undefined);
    return until(AbortSignal.any([this.ending.signal, ...given]), work);
  }
}
