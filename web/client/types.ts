/** What the library's users see; plain data, so that it crosses between the page and its worker. */

import type { Delta } from "../calls/deltas.ts";

/** What comes of an answer: pieces of what is said and thought, and of calls of tools. */
export type AnswerDelta = Delta;

/** What is said in a conversation: what chat templates read of it, by the names that they have for it. */
export interface Message {
  readonly role: "system" | "user" | "assistant" | "tool" | (string & {});
  /** Null in an answer that is only calls of tools. */
  readonly content: string | null;
  /** What was thought before an answer; templates show it where the model is to see it again. */
  readonly reasoning_content?: string;
  /** Calls of tools in an answer. */
  readonly tool_calls?: readonly ToolCall[];
  /** Of a tool's result: the call that it is of, and the tool's name. */
  readonly tool_call_id?: string;
  readonly name?: string;
}

/** A call of a tool in an earlier answer. */
export interface ToolCall {
  readonly id?: string;
  readonly type?: "function";
  readonly function: {
    readonly name: string;
    /** An object, or the JSON text of one. */
    readonly arguments: string | Readonly<Record<string, unknown>>;
  };
}

/** What a model is told that it may call. */
export interface ToolDefinition {
  readonly type: "function";
  readonly function: {
    /** Up to 128 letters (A to Z), digits and `_ - . /` signs. */
    readonly name: string;
    readonly description?: string;
    /** The JSON schema of its arguments, which are an object. */
    readonly parameters?: Readonly<Record<string, unknown>>;
  };
}

/** Whether a model may (`auto`), must not (`none`) or must call tools (`required`), or which one it must call. */
export type ToolChoiceOption =
  | "auto"
  | "none"
  | "required"
  | { readonly type: "function"; readonly function: { readonly name: string } };

/** How hard a model thinks, where its template knows the word. */
export type ReasoningEffort = "minimal" | "low" | "medium" | "high" | "xhigh";

/**
 * Whether and how hard a model thinks before it answers, or after how many tokens its thought is closed; what is left
 * out is left to the model.
 */
export type ReasoningOption =
  | boolean
  | "on"
  | "off"
  | "none"
  | ReasoningEffort
  | number
  | {
      readonly enabled?: boolean | null;
      readonly effort?: ReasoningEffort | null;
      readonly budget?: number | null;
    };

/** What an answer has to be, as OpenAI's API has it, and regular expressions and grammars besides. */
export type ResponseFormatOption =
  | "text"
  | "json"
  | { readonly type: "text" | "json_object" }
  | {
      readonly type: "json_schema";
      readonly json_schema: {
        readonly name?: string;
        readonly description?: string;
        readonly schema: Readonly<Record<string, unknown>>;
        readonly strict?: boolean | null;
      };
    }
  /** The whole answer matches it. */
  | { readonly type: "regex"; readonly pattern: string }
  /** GBNF or Lark; by default the syntax is told from the text. */
  | { readonly type: "grammar"; readonly grammar: string; readonly syntax?: "gbnf" | "lark" };

/** What of an answer is asked for, besides what it answers. */
export interface AnswerOptions {
  /**
   * What the answer has to be, after a thought if the model has one: any text, by default. The completion's `parsed`
   * is what it is read as. It ends where nothing may follow, or at the length limit.
   */
  readonly responseFormat?: ResponseFormatOption;
  /**
   * What the model is told that it may call, by templates that show it. Calls are in the completion's `toolCalls`,
   * and come in `deltas`; messages may have `tool_calls` and results of them.
   */
  readonly tools?: readonly ToolDefinition[];
  /** `auto` where there are tools; with `none` the model is not told of them, others force it to call. */
  readonly toolChoice?: ToolChoiceOption;
  /**
   * How the model writes calls and thoughts: `hermes`, `llama3`, `qwen3-coder`, `mistral`, `gemma`, `harmony`,
   * `deepseek`, `json` and others; by default what its chat template tells.
   */
  readonly toolFormat?: string;
  /**
   * Whether, how hard or for how many tokens the model thinks. A switch or an effort is refused with
   * `unsupported.reasoning` where the chat template has none, and with `input.reasoning` for prompts without one.
   */
  readonly reasoning?: ReasoningOption;
}

/** How a generation chooses tokens and when it ends. What is left out is the model's own default. */
export interface GenerateOptions extends AnswerOptions {
  /** Tokens to generate at most; fewer where the context ends first. With 0 the prompt is read, no more. */
  readonly maxTokens?: number;
  /** End tokens and `stopTokenIds` do not come before the answer has so many. */
  readonly minTokens?: number;
  /** 0 chooses the likeliest token. */
  readonly temperature?: number;
  /** Keep the k likeliest tokens; 0 and -1 keep all. */
  readonly topK?: number;
  /** Keep the likeliest tokens that together reach this probability; 0 keeps the likeliest alone. */
  readonly topP?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  /** Token id to what is added to its logit. */
  readonly logitBias?: Readonly<Record<number, number>>;
  /** Of the random numbers, below 2^64; the same seed and request give the same text. -1 is any. */
  readonly seed?: number | bigint;
  /** End before the first of these strings. */
  readonly stop?: string | readonly string[];
  readonly stopTokenIds?: readonly number[];
  /** Go on past the model's end tokens. */
  readonly ignoreEos?: boolean;
  /**
   * Tell how likely each token was, by the model alone: before penalties, biases, temperature and filters. The
   * tokens are the same as without; they come one at a time, which takes longer.
   */
  readonly logprobs?: boolean;
  /** With `logprobs`: tell so many of the likeliest tokens in each one's place, too, 0 to 20. */
  readonly topLogprobs?: number;
  /** Who waits goes in this order, the smallest first, then by arrival: a whole number, -2^31 to 2^31, 0 by default. */
  readonly priority?: number;
  readonly signal?: AbortSignal;
}

/** Where a conversation is too long for the context: refused, or read without its oldest turns. */
export type ContextPolicy = "stop" | "drop";

/** What special tokens are that a message has written out. */
export type SpecialTokens = "text" | "control";

/** How a conversation is answered. */
export interface ChatOptions extends GenerateOptions {
  /**
   * `stop`, the default, refuses a conversation that the context does not hold; `drop` leaves out as
   * many of the oldest turns after the system prompt as it has to. The completion says how many.
   */
  readonly contextPolicy?: ContextPolicy;
  /**
   * Tokens of an answer that ended too early, as its completion had them: it goes on from them, and
   * its text begins with theirs.
   */
  readonly begun?: readonly number[];
  /**
   * What special tokens are that a message has written out: `text`, the default, is what they look like;
   * with `control` they are those tokens, and whoever wrote them can end a turn and write another's.
   */
  readonly specialTokens?: SpecialTokens;
  /** What else the chat template reads, plain data such as `{ enable_thinking: false }`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** How several answers to one prompt are asked for; what is about conversations is for those. */
export interface ChoicesOptions extends ChatOptions {
  /** How many, 1 to 64. */
  readonly n: number;
}

/** `tool_calls` is `stop` of an answer that has called tools, whose results it waits for. */
export type FinishReason = "stop" | "length" | "cancelled" | "tool_calls";

/** A call of a tool in an answer. */
export interface CalledTool {
  /** The model's own, or else a fresh one. */
  readonly id: string;
  /** What the model wrote: it may be no tool that there is. */
  readonly name: string;
  /** The arguments as the model wrote them, or as JSON where it wrote no JSON. */
  readonly text: string;
  /** The same arguments by name; nobody has looked whether the tool takes them. */
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** A token and how likely it was: `logprob` is the natural logarithm of its probability, at most 0. */
export interface LikelyToken {
  readonly tokenId: number;
  /** Of its bytes; what is no UTF-8, such as a part of a character, is replaced. */
  readonly text: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** A token of an answer, and the likeliest in its place, best first. */
export interface TokenLogprob extends LikelyToken {
  readonly top: readonly LikelyToken[];
}

export interface Usage {
  readonly promptTokens: number;
  /** Tokens of the prompt whose KV pages were there already. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly totalTokens: number;
}

/** Milliseconds and tokens per second; `ttftMs` runs from the request to its first token. */
export interface Timings {
  readonly ttftMs: number;
  readonly prefillMs: number;
  readonly decodeMs: number;
  readonly prefillTokensPerSecond: number;
  /** Of the tokens after the first, which belongs to the prefill; 0 where there is none. */
  readonly decodeTokensPerSecond: number;
  readonly decodeTokens: number;
}

export interface Completion {
  /**
   * Of the whole answer: where it went on from tokens, they and their text come first. Of a chat it is what was said,
   * without thoughts and calls; what began as a call and is none is in it as the model wrote it.
   */
  readonly text: string;
  /** What was thought before the answer; empty but in a chat. */
  readonly reasoning: string;
  /** Of the tokens those that were thought, marks before and within included; undefined of a host's answer. */
  readonly thoughtTokens?: number;
  /**
   * The text as what was asked for with `responseFormat`: a JSON value, or the text itself of a regex or a grammar.
   * Undefined where nothing was asked for, and where the text was cut off before it is one.
   */
  readonly parsed?: unknown;
  /** Calls of tools, in their order; none but in a chat with tools. */
  readonly toolCalls: readonly CalledTool[];
  /** All of it as the model wrote it, with the marks around thoughts and calls. */
  readonly written: string;
  readonly tokenIds: readonly number[];
  /** Of each token that was drawn, where `logprobs` asked for it: not of those that it went on from. */
  readonly logprobs?: readonly TokenLogprob[];
  readonly finishReason: FinishReason;
  readonly usage: Usage;
  readonly timings: Timings;
  /** Decimal digits of the seed that gives the same text again. */
  readonly seed: string;
  /** It ended because the context did, before `maxTokens`. */
  readonly contextFull: boolean;
  /** Oldest turns of the conversation that were left out. */
  readonly droppedTurns: number;
}

/**
 * A running generation: iterate it for pieces of the completion's text, or its `deltas` for all that comes. Leaving
 * the loop early stops it.
 */
export interface Generation extends AsyncIterable<string> {
  /** Pieces of text, thoughts and calls. They are handed out once: iterate the generation or these. */
  readonly deltas: AsyncIterable<AnswerDelta>;
  /** The tokens so far, those of `begun` among them: an answer that breaks off can go on from them. */
  readonly tokenIds: readonly number[];
  /** How likely each token so far was, where that was asked for. */
  readonly logprobs: readonly TokenLogprob[];
  /** Resolves when it has ended, however it did; rejects with an EdgewiseError. */
  readonly completion: Promise<Completion>;
  /** End it where it is; `completion` then says `cancelled`. */
  stop(): void;
}

export type LoadPhase = "manifest" | "device" | "kernels" | "tuning" | "weights" | "ready";

export interface LoadProgress {
  readonly phase: LoadPhase;
  /** What of the phase is done: bytes for `weights`, otherwise steps. */
  readonly done: number;
  readonly total: number;
  /** Bytes of `done` that came from this device's storage, not from the network. */
  readonly cached: number;
}

export interface Warning {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
}

/** `recovering` while a lost device is made anew; `failed` where that did not work. */
export type EngineStatus = "ready" | "recovering" | "failed";

export interface LoadOptions {
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Hears what does not keep the model from running, such as storage that is full. */
  readonly onWarning?: (warning: Warning) => void;
  /** Hears of the device being lost and found again; running answers go on by themselves. */
  readonly onStatus?: (status: EngineStatus) => void;
  /** Aborts loading; what has been downloaded is kept. */
  readonly signal?: AbortSignal;
  /** Id of a program of the bundle; by default the fastest that fits the adapter. */
  readonly program?: string;
  /** Most tokens of one conversation; by default all that the bundle allows. */
  readonly context?: number;
  /**
   * Tokens decoded in one submission at most, 1 to 64, however long they take; by default as many as
   * take a tenth of a second, up to 8, or up to 64 where the browser is slow to tell of results.
   */
  readonly maxBurst?: number;
  /**
   * Guess how an answer goes on from where the text read like this before (`"lookup"`), and verify several tokens at
   * once while that is quicker: for answers that repeat their prompt, as edits and summaries do. The text stays the
   * same in programs whose decode agrees with their prefill to the last bit (`decode_agrees` of the manifest); in others
   * tokens may change places that are as likely but for rounding. Nothing is guessed by default.
   */
  readonly draft?: "lookup";
  /** Record what the engine does and when, for `Engine.trace`: the last 20,000 steps and phases of requests. */
  readonly trace?: boolean;
  /**
   * Ask the browser not to evict the weights (`navigator.storage.persist`); true by default. Firefox asks
   * the person.
   */
  readonly persist?: boolean;
  /**
   * Keep KV pages of what was asked and answered in the origin's storage, so that a prompt that begins as an earlier
   * one did is not computed again, also after a reload: so many bytes at most, false for none. By default a tenth of
   * what the origin may keep, and 1 GiB at most.
   */
  readonly keepPages?: number | false;
  /**
   * Whether prompts may begin with KV pages that the bundle ships: by default where they are estimated to come sooner
   * than this device computes them, "always" however long they take, false never.
   */
  readonly prefixPacks?: boolean | "always";
  /**
   * Milliseconds after the last answer at which KV pages that are in the origin's storage are let go of on the GPU, and what
   * memory came to be needed for them is given back: a minute by default, 0 for at once, null for never. The next prompt
   * finds them in storage. On phones, tablets and other small machines that happens as soon as the page is hidden, unless never.
   */
  readonly spillAfterMs?: number | null;
  /** URL of the worker script, where a bundler does not find it by itself; of any origin that allows it. */
  readonly workerUrl?: string | URL;
}

export interface AdapterLimits {
  readonly maxBufferSize: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupStorageSize: number;
  readonly maxStorageBuffersPerShaderStage: number;
}

/** What this browser's WebGPU adapter is and has; `reason` says in plain words why there is none. */
export interface AdapterReport {
  readonly available: boolean;
  readonly reason: string;
  readonly name: string;
  readonly vendor: string;
  readonly architecture: string;
  readonly features: readonly string[];
  /** A software adapter, slow. */
  readonly fallback: boolean;
  readonly limits: AdapterLimits;
  readonly subgroupMinSize: number | null;
  readonly subgroupMaxSize: number | null;
  /** Names the adapter and its features, for what is remembered about it. */
  readonly key: string;
}

/**
 * What a chat template does about thoughts, which some models write between `<think>` and `</think>`
 * before they answer.
 */
export interface Thinking {
  /** Whether it reads `enable_thinking` of the `variables`. */
  readonly switchable: boolean;
  /** Whether the model thinks where `enable_thinking` is left out; true where nothing can be said. */
  readonly byDefault: boolean;
  /** Whether prompts end with `<think>`, so that answers begin in a thought: with thinking on, and off. */
  readonly opened: { readonly on: boolean; readonly off: boolean };
  /** Whether prompts leave out the thoughts of earlier answers. */
  readonly forgets: boolean;
}

export interface EngineInfo {
  readonly name: string;
  /** Names the bundle: what its bundle.json carries of itself. */
  readonly digest: string;
  readonly family: string;
  readonly quant: string;
  /** Null where there is no chat template. */
  readonly thinking: Thinking | null;
  /** Names the tokenizer: token ids mean the same in all models that have the same one. */
  readonly tokenizer: string;
  readonly program: string;
  readonly adapter: AdapterReport;
  /** Where weights are kept: `memory` means that they are gone with the page. */
  readonly storage: "opfs" | "indexeddb" | "memory";
  /** Most tokens of prompt and answer together. */
  readonly context: number;
  /** Generations that are computed side by side; more of them wait. */
  readonly slots: number;
  /** KV pages when it was loaded, and those that there may be once they are needed; of all state groups. */
  readonly pages: number;
  readonly mostPages: number;
  /** Bytes when it was loaded. */
  readonly memory: Readonly<Record<"param" | "state" | "input" | "output" | "scratch", number>>;
}

/** Counters since loading. */
export interface EngineStats {
  readonly submits: number;
  readonly dispatches: number;
  readonly buffers: number;
  readonly bindGroups: number;
  readonly pipelines: number;
  readonly readbacks: number;
  /** Bytes of buffers on the device now, and the most that there ever were at once. */
  readonly bytes: number;
  readonly peakBytes: number;
  /** Times that pages were added, and given back; what was copied to other buffers for that. */
  readonly growths: number;
  readonly shrinks: number;
  readonly copies: number;
  readonly copiedBytes: number;
  /** KV pages that there are now. */
  readonly pages: number;
  readonly pagesFree: number;
  readonly pagesCached: number;
  readonly running: number;
  readonly waiting: number;
  readonly prefixQueriedTokens: number;
  readonly prefixHitTokens: number;
  /** Of those that were found, the tokens whose KV came with the bundle: nothing was computed of them. */
  readonly prefixBundleTokens: number;
  /** KV pages that were found in the origin's storage, and those that were put there. */
  readonly pagesRestored: number;
  readonly pagesSaved: number;
  /** Tokens that were guessed (`draft`), and those of them that were right. */
  readonly draftTokens: number;
  readonly draftAcceptedTokens: number;
  /** KV pages that were let go of on the GPU because they can be had from there. */
  readonly pagesSpilled: number;
  /** Why pages could not be put there when that was last tried, in words; null where nothing is known to be wrong. */
  readonly pagesFailure: string | null;
  /** KV pages of all models in the origin's storage, their bytes, and how many those may be. */
  readonly pagesKept: number;
  readonly pagesKeptBytes: number;
  readonly pagesKeptLimit: number;
  /** Most bytes of weights that the loader held at once. */
  readonly loaderPeakBytes: number;
  readonly deviceLosses: number;
}
