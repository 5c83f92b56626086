/** The conversations of a page, the answers being written, and everything a person does to them. */

import type { Completion, Generation } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import type { Book } from "./book.ts";
import * as books from "./book.ts";
import { MAX_TOKENS } from "./bounds.ts";
import { endOf, shownOf, turnTo } from "./branches.ts";
import {
  type AnswerStats,
  answer,
  ask,
  blankAnswer,
  type ChatMessage,
  type Conversation,
  edit,
  prompt,
} from "./conversations.ts";
import type { Database } from "./database.ts";
import { type Failure, failureOf } from "./failure.ts";
import type { Attachment } from "./files.ts";
import { type Answers, canGoOn } from "./going-on.ts";
import { answerOf, ThoughtTimer } from "./thoughts.ts";
import { hold } from "./writing-lock.ts";
import { unwritten, withDelta } from "./written.ts";

/** An answer being written, with what is there of it. */
export interface Writing {
  readonly message: ChatMessage;
  readonly generation: Generation;
  /** Of the model. */
  readonly tokenizer: string;
}

/** Why an answer failed. */
export interface FailedAnswer extends Failure {
  /** The message that was to go on, where one was: its id. */
  readonly begun?: string;
}

export interface ChatState {
  readonly book: Book;
  /** At most one answer a conversation, by the conversation's id. */
  readonly writing: ReadonlyMap<string, Writing>;
  /** Why the last answer of a conversation failed, by the conversation's id. */
  readonly failures: ReadonlyMap<string, FailedAnswer>;
  /** The answer that ended last, for screen readers. */
  readonly finished: string;
  /** The conversation deleted last, until that is past undoing. */
  readonly removed: Conversation | null;
  /** Why conversations are not kept. */
  readonly unkept: Failure | null;
}

export interface ChatOptions {
  readonly database: Promise<Database>;
  /** Calls back when the screen is drawn next, at most. */
  readonly onFrame: (act: () => void) => void;
  readonly onState: (state: ChatState) => void;
  readonly now?: () => number;
}

export type Chat = ReturnType<typeof createChat>;

/** What there is of an answer is kept this often, in milliseconds: pages get closed. */
const KEEP_EVERY = 1000;

export function createChat({ database, onFrame, onState, now = Date.now }: ChatOptions) {
  let state: ChatState = {
    book: books.openBook([], now()),
    writing: new Map(),
    failures: new Map(),
    finished: "",
    removed: null,
    unkept: null,
  };
  let scheduled = false;
  let looked = false;
  let found: (id: string | null) => void = () => {};
  /** The conversation whose answer an earlier page left unfinished. */
  let left = new Promise<string | null>((resolve) => {
    found = resolve;
  });

  const set = (changes: Partial<ChatState>) => {
    state = { ...state, ...changes };
    onState(state);
  };
  /** Set what changes with every token: shown once a frame. */
  const stream = (writing: ChatState["writing"]) => {
    state = { ...state, writing };
    if (scheduled) return;
    scheduled = true;
    onFrame(() => {
      scheduled = false;
      onState(state);
    });
  };
  const unkept = (error: unknown) => {
    const { message } = EdgewiseError.from(error, "chat.storage", "The browser said");
    set({
      unkept: {
        code: "chat.storage",
        message: `Conversations are not kept: ${message}.`,
        remedy: "Export them before closing the page, or free space in the settings.",
      },
    });
  };
  const keep = (conversation: Conversation) => {
    if (conversation.messages.length === 0) return;
    void database.then((opened) => opened.save(conversation)).catch(unkept);
  };
  const forget = (id: string) => {
    void database.then((opened) => opened.remove(id)).catch(unkept);
  };
  const current = () => books.currentOf(state.book);
  const change = (id: string, how: (conversation: Conversation) => Conversation) => {
    const book = books.change(state.book, id, how);
    const changed = book.all.find((one) => one.id === id);
    if (changed) keep(changed);
    return book;
  };

  /** Keep what there is of an answer, and what it can go on from. */
  const keepWritten = ([id, { message, generation, tokenizer }]: [string, Writing]) => {
    const asked = state.book.all.find((one) => one.id === id);
    const tokens = [...generation.tokenIds];
    const begun = tokens.length > 0 ? { ...message, cut: { tokenizer, tokens } } : message;
    if (asked) keep(answer(asked, begun, now()));
  };

  /** Write an answer that follows a question of the conversation, or go on with one. */
  const write = async (
    answers: Answers,
    asked: Conversation,
    begun: ChatMessage,
    maxTokens?: number,
  ) => {
    const { id } = asked;
    const { context, tokenizer } = answers.info;
    state.writing.get(id)?.generation.stop();
    const { messages, droppedTurns } = prompt(asked, begun, context);
    const most = asked.settings.maxTokens ?? maxTokens ?? MAX_TOKENS;
    // What broke off has some of its tokens; what the limit cut off has had all, and gets as many.
    const had = begun.stats ? 0 : (begun.cut?.tokens.length ?? 0);
    const generation = answerOf(answers, messages, {
      contextPolicy: "drop",
      ...asked.settings,
      maxTokens: Math.max(most - had, 1),
      ...(begun.cut ? { begun: begun.cut.tokens } : {}),
    });
    const timer = new ThoughtTimer(begun.thoughtMs);
    const { stats: _, ...unfinished } = begun;
    let message: ChatMessage = unfinished;
    let came = false;
    const ours = () => state.writing.get(id)?.generation === generation;
    const failures = without(state.failures, id);
    const writing = new Map(state.writing).set(id, { message, generation, tokenizer });
    const release = hold(id);
    set({ book: change(id, () => asked), failures, writing, finished: "", removed: null });
    let kept = Number.NEGATIVE_INFINITY; // what came first is kept at once
    let failure: FailedAnswer | null = null;
    try {
      for await (const delta of generation.deltas) {
        const before = came ? message : unwritten(message);
        came = true;
        message = { ...withDelta(before, delta), ...timer.add(delta, now()) };
        if (!ours()) continue;
        const written = { message, generation, tokenizer };
        stream(new Map(state.writing).set(id, written));
        if (now() - kept < KEEP_EVERY) continue;
        kept = now();
        keepWritten([id, written]);
      }
      message = ended(message, await generation.completion, {
        context,
        tokenizer,
        droppedTurns,
        ...(answers.where && { where: answers.where }),
      });
    } catch (error) {
      failure = { ...failureOf(error), ...(begun.cut ? { begun: begun.id } : {}) };
    } finally {
      release();
    }
    if (!ours()) return;
    // An answer of which nothing came leaves what there was.
    const changed = came || message.stats;
    set({
      book: changed ? change(id, (found) => answer(found, message, now())) : state.book,
      writing: without(state.writing, id),
      failures: failure ? new Map(state.failures).set(id, failure) : state.failures,
      finished: id === state.book.current ? message.content.slice(begun.content.length) : "",
    });
  };

  /** Answer the last question shown, if there is one. */
  const reply = async (answers: Answers, asked: Conversation, maxTokens?: number) => {
    const blank = blankAnswer(asked);
    if (blank) await write(answers, asked, blank, maxTokens);
  };

  return {
    state: () => state,
    /** See what is kept here, by earlier visits and by other tabs. */
    async restore(): Promise<void> {
      try {
        const kept = await (await database).all();
        const settled = kept.filter(({ id }) => !state.writing.has(id));
        set({ book: books.merge(state.book, settled) });
        if (looked) return;
        looked = true;
        const { unfinished } = await import("./unfinished.ts");
        const id = await unfinished(settled, now());
        // Who has begun something else is not interrupted.
        if (id && current().messages.length === 0) set({ book: books.pick(state.book, id) });
        found(id);
      } catch (error) {
        unkept(error);
      }
    },
    /** Go on with the answer that an earlier page left unfinished, where it is shown; once. */
    async resume(answers: Answers, maxTokens?: number): Promise<void> {
      const id = await left;
      left = Promise.resolve(null);
      const last = shownOf(current()).at(-1);
      if (!last?.cut || id !== state.book.current) return;
      const tried: ChatMessage = { ...last, cut: { ...last.cut, tried: true } };
      set({ book: change(id, (one) => answer(one, tried, now())) });
      await this.goOn(answers, maxTokens);
    },
    /** Keep what there is of all answers: the page may be ended without another word. */
    keepWriting: () => [...state.writing].forEach(keepWritten),
    begin: () => set({ book: books.begin(state.book, now()), finished: "", removed: null }),
    pick: (id: string) => set({ book: books.pick(state.book, id), finished: "" }),
    /** Show a conversation, and in it the newest branch through a message. */
    find(id: string, message: string | null) {
      const book = books.pick(state.book, id);
      const shown = (one: Conversation) =>
        message === null || shownOf(one).some((said) => said.id === message)
          ? one
          : { ...one, leaf: endOf(one.messages, message) };
      set({ book: books.change(book, id, shown), finished: "" });
    },
    rename: (id: string, title: string) => set({ book: change(id, (one) => ({ ...one, title })) }),
    configure: (changes: Partial<Pick<Conversation, "system" | "settings">>) =>
      set({ book: change(state.book.current, (one) => ({ ...one, ...changes })) }),
    /** Take in conversations that are not here yet. */
    add(conversations: readonly Conversation[]) {
      conversations.forEach(keep);
      set({ book: books.merge(state.book, conversations) });
    },
    remove(id: string) {
      state.writing.get(id)?.generation.stop();
      const removed = state.book.all.find((one) => one.id === id) ?? null;
      forget(id);
      const book = books.remove(state.book, id, now());
      set({ book, removed, writing: without(state.writing, id) });
    },
    /** Bring back the conversation deleted last. */
    undo() {
      const { removed, book } = state;
      if (!removed) return;
      keep(removed);
      set({ book: books.pick(books.merge(book, [removed]), removed.id), removed: null });
    },
    send: (answers: Answers, text: string, maxTokens?: number, files?: readonly Attachment[]) =>
      reply(answers, ask(current(), text, now(), files), maxTokens),
    /** Ask a question again in other words; the question as it was stays beside it. */
    edit: (answers: Answers, id: string, text: string, maxTokens?: number) =>
      reply(answers, edit(current(), id, text, now()), maxTokens),
    /** Answer the last question anew; the earlier answers stay beside the new one. */
    regenerate: (answers: Answers, maxTokens?: number) => reply(answers, current(), maxTokens),
    /** Go on with the last answer where the length limit cut it off. */
    async goOn(answers: Answers, maxTokens?: number): Promise<void> {
      const branch = shownOf(current());
      const last = branch.at(-1);
      if (last && canGoOn(branch, answers)) await write(answers, current(), last, maxTokens);
    },
    /** Do once more what failed: go on with the answer that was to go on, or else answer anew. */
    async retry(answers: Answers, maxTokens?: number): Promise<void> {
      const begun = state.failures.get(state.book.current)?.begun;
      const branch = shownOf(current());
      const last = branch.at(-1);
      if (last && last.id === begun && canGoOn(branch, answers)) {
        await write(answers, current(), last, maxTokens);
      } else {
        await reply(answers, current(), maxTokens);
      }
    },
    /** Show another version of a message, so many after it or before. */
    turn: (id: string, step: number) =>
      set({ book: change(state.book.current, (one) => turnTo(one, id, step)) }),
    /** End the answer of the conversation shown. */
    stop: () => state.writing.get(state.book.current)?.generation.stop(),
    stopAll() {
      for (const { generation } of state.writing.values()) generation.stop();
    },
    dismiss(what: "failure" | "removed" | "unkept") {
      if (what === "failure") set({ failures: without(state.failures, state.book.current) });
      else if (what === "removed") set({ removed: null });
      else set({ unkept: null });
    },
  };
}

/** An answer that has come to its end. */
function ended(
  message: ChatMessage,
  completion: Completion,
  asked: {
    readonly context: number;
    readonly tokenizer: string;
    readonly droppedTurns: number;
    readonly where?: "host";
  },
): ChatMessage {
  const { usage, timings, finishReason, tokenIds, contextFull } = completion;
  const { cut: _, ...others } = message;
  const stats: AnswerStats = {
    ttftMs: timings.ttftMs,
    tokensPerSecond: timings.decodeTokensPerSecond,
    tokens: usage.completionTokens,
    promptTokens: usage.promptTokens,
    cachedTokens: usage.cachedTokens,
    finish: finishReason,
    contextFull,
    context: asked.context,
    droppedTurns: asked.droppedTurns + completion.droppedTurns,
    ...(asked.where && { by: asked.where }),
  };
  const cut = { tokenizer: asked.tokenizer, tokens: tokenIds };
  return { ...others, stats, ...(finishReason === "length" ? { cut } : {}) };
}

function without<V>(map: ReadonlyMap<string, V>, key: string): ReadonlyMap<string, V> {
  if (!map.has(key)) return map;
  const less = new Map(map);
  less.delete(key);
  return less;
}
