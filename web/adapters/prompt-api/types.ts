/** The Prompt API's dictionaries, by the names that its specification has for them. */

export type Availability = "unavailable" | "downloadable" | "downloading" | "available";

export type LanguageModelSamplingMode =
  | "most-predictable"
  | "predictable"
  | "balanced"
  | "creative"
  | "most-creative";

export type LanguageModelMessageType = "text" | "image" | "audio" | "tool-call" | "tool-response";

/** What goes into a session, or comes out of it. */
export interface LanguageModelExpected {
  readonly type: LanguageModelMessageType;
  /** BCP 47 tags. Whether the model speaks them is not known. */
  readonly languages?: readonly string[];
}

export interface LanguageModelMessageContent {
  readonly type: LanguageModelMessageType;
  /** Of a text, a string; anything else is refused. */
  readonly value: unknown;
}

export interface LanguageModelMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string | readonly LanguageModelMessageContent[];
  /** Of a last message that is the assistant's: the answer begins so. */
  readonly prefix?: boolean;
}

/** A text is a user's message. */
export type LanguageModelPrompt = string | readonly LanguageModelMessage[];

/** A function that the model may call. */
export interface LanguageModelTool {
  readonly name: string;
  readonly description: string;
  /** JSON schema of the arguments, which are an object. */
  readonly inputSchema: object;
  /** Called with that object; calls of one answer run at once. */
  readonly execute: (input: Readonly<Record<string, unknown>>) => Promise<string> | string;
}

export interface LanguageModelCreateCoreOptions {
  /** Of the likeliest tokens so many, 1 or more; not together with `samplingMode`. */
  readonly topK?: number;
  /** 0 to 2, above which it is 2; not together with `samplingMode`. */
  readonly temperature?: number;
  readonly samplingMode?: LanguageModelSamplingMode;
  readonly expectedInputs?: readonly LanguageModelExpected[];
  readonly expectedOutputs?: readonly LanguageModelExpected[];
  readonly tools?: readonly LanguageModelTool[];
}

/** Hears of `downloadprogress`: `ProgressEvent`s from 0 to 1. */
export interface CreateMonitor extends EventTarget {
  ondownloadprogress: ((event: ProgressEvent) => void) | null;
  addEventListener(
    type: "downloadprogress",
    listener: (event: ProgressEvent) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
}

export interface LanguageModelCreateOptions extends LanguageModelCreateCoreOptions {
  /** Ends making the session, and later the session. */
  readonly signal?: AbortSignal;
  readonly monitor?: (monitor: CreateMonitor) => void;
  /** Never dropped, however long the conversation gets. */
  readonly initialPrompts?: readonly LanguageModelMessage[];
}

export interface LanguageModelPromptOptions {
  /** A JSON schema or a regular expression that the whole answer follows. */
  readonly responseConstraint?: object;
  /** The model is not told of the constraint. */
  readonly omitResponseConstraintInput?: boolean;
  readonly signal?: AbortSignal;
}

export interface LanguageModelAppendOptions {
  readonly signal?: AbortSignal;
}

export interface LanguageModelCloneOptions {
  readonly signal?: AbortSignal;
}
