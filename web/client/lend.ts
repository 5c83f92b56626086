/**
 * Lends a model that is loaded here to the host: it asks over a WebSocket, this page's GPU answers.
 *
 * docs/tabs.md has the messages. What the host says is checked as files are: it may have been replaced.
 */

import { EdgewiseError, type ErrorJson } from "../errors.ts";
import { lentOptions } from "./lend-options.ts";
import { type FromHost, type Run, readFromHost, type ToHost } from "./lend-protocol.ts";
import { type HostOptions, openSocket } from "./opening.ts";
import type { ChatOptions, Completion, EngineInfo, Generation, Message } from "./types.ts";
import { choiceOf, deltasOf } from "./wire.ts";

/** What can be lent: an `Engine`. */
export interface Lendable {
  readonly info: EngineInfo;
  chat(messages: readonly Message[], options?: ChatOptions): Generation;
  generate(prompt: string | readonly number[], options?: ChatOptions): Generation;
  stats(): Promise<unknown>;
}

export type LendState =
  | { readonly kind: "connecting" }
  /** The host asks; `served` counts the answers so far, those that run included. */
  | { readonly kind: "lending"; readonly running: number; readonly served: number }
  /** The connection was lost, and is tried again. */
  | { readonly kind: "waiting"; readonly seconds: number; readonly error: EdgewiseError }
  /** The host does not want it. */
  | { readonly kind: "refused"; readonly error: EdgewiseError }
  | { readonly kind: "ended" };

export interface LendOptions extends HostOptions {
  /** The model's name there; by default the bundle's. */
  readonly model?: string;
  readonly onState?: (state: LendState) => void;
}

export interface Lending {
  /** Take no more requests, and end those that run. Stopping twice is fine. */
  stop(): void;
}

/** Seconds before a lost connection is tried again, the last one from then on. */
export const AGAIN_S = [1, 2, 5, 15, 30] as const;
/** Bytes that wait to be sent above which pieces are joined. */
const CROWDED = 1 << 16;
const CROWDED_MS = 20;
/** Codes of errors after which trying again is no use. */
const FINAL = new Set(["tab.bundle", "tab.model", "tab.unwanted", "tab.wrong"]);

/** Lend an engine to the host, until it is stopped or refused. */
export function lend(engine: Lendable, options: LendOptions = {}): Lending {
  return new Lender(engine, options);
}

class Lender implements Lending {
  private readonly engine: Lendable;
  private readonly options: LendOptions;
  private connection: Connection | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private tries = 0;
  private served = 0;
  private ended = false;

  constructor(engine: Lendable, options: LendOptions) {
    this.engine = engine;
    this.options = options;
    void this.connect();
  }

  stop(): void {
    if (this.ended) return;
    this.ended = true;
    clearTimeout(this.timer);
    this.connection?.close();
    this.say({ kind: "ended" });
  }

  private say(state: LendState): void {
    this.options.onState?.(state);
  }

  private async connect(): Promise<void> {
    this.say({ kind: "connecting" });
    try {
      const socket = await openSocket(this.options);
      if (this.ended) return socket.close();
      this.connection = new Connection(socket, this.engine, this.options.model, {
        running: (running, begun) => {
          this.tries = 0;
          this.served += begun;
          this.say({ kind: "lending", running, served: this.served });
        },
        over: (error) => this.lost(error),
      });
    } catch (error) {
      this.lost(EdgewiseError.from(error, "tab.gone", "The host does not answer"));
    }
  }

  private lost(error: EdgewiseError): void {
    if (this.ended) return;
    if (FINAL.has(error.code)) {
      this.ended = true;
      this.say({ kind: "refused", error });
      return;
    }
    const seconds = AGAIN_S[Math.min(this.tries, AGAIN_S.length - 1)] ?? 30;
    this.tries += 1;
    this.say({ kind: "waiting", seconds, error });
    this.timer = setTimeout(() => void this.connect(), seconds * 1000);
  }
}

interface Heard {
  /** So many run now, and so many began. */
  running(running: number, begun: number): void;
  /** The connection is lost, once. */
  over(error: EdgewiseError): void;
}

/** One socket, from its opening to its end. */
class Connection {
  private readonly socket: WebSocket;
  private readonly engine: Lendable;
  private readonly heard: Heard;
  private readonly running = new Map<string, Generation>();
  private error: EdgewiseError | null = null;
  private closed = false;

  constructor(socket: WebSocket, engine: Lendable, model: string | undefined, heard: Heard) {
    this.socket = socket;
    this.engine = engine;
    this.heard = heard;
    socket.onmessage = ({ data }) => this.take(data);
    socket.onclose = ({ code, reason }) => this.end(this.error ?? gone(code, reason));
    const { info } = engine;
    this.send({
      type: "lend",
      model: model ?? info.name,
      bundle: info.digest,
      tokenizer: info.tokenizer,
      program: info.program,
      device: info.adapter.name.slice(0, 256),
      context: info.context,
      slots: Math.min(info.slots, 64),
    });
  }

  close(): void {
    this.closed = true;
    this.socket.close(1000);
    this.halt();
  }

  private take(data: unknown): void {
    try {
      this.obey(readFromHost(data));
    } catch (error) {
      this.error = EdgewiseError.from(error, "tab.wrong", "The host said what cannot be");
      this.socket.close(1000);
      this.end(this.error);
    }
  }

  private obey(message: FromHost): void {
    switch (message.type) {
      case "lent":
        this.heard.running(0, 0);
        break;
      case "run":
        void this.run(message);
        break;
      case "halt":
        this.running.get(message.run)?.stop();
        break;
      case "beat":
        // By way of the worker, whose answers they stand for.
        void this.engine.stats().then(
          () => this.send({ type: "alive", beat: message.beat }),
          () => this.socket.close(1000),
        );
        break;
      case "error":
        this.error = EdgewiseError.fromJson(message.error);
        break;
    }
  }

  private async run({ run, messages, prompt, tools, variables, options }: Run): Promise<void> {
    if (this.running.has(run)) throw new EdgewiseError("tab.wrong", `Run ${run} runs already.`);
    let pieces: Pieces | null = null;
    try {
      const asked = { ...lentOptions(options), ...(tools && { tools }) };
      const generation = messages
        ? this.engine.chat(messages, { ...asked, ...(variables && { variables }) })
        : this.engine.generate(prompt ?? "", asked);
      this.running.set(run, generation);
      this.heard.running(this.running.size, 1);
      pieces = new Pieces(this.socket, run);
      for await (const delta of generation.deltas) pieces.add(delta);
      const completion: Completion = await generation.completion;
      pieces.flush();
      this.send({ type: "ended", run, choice: choiceOf(completion) });
    } catch (error) {
      const failure = EdgewiseError.from(error, "tab.failed", "The tab could not answer");
      pieces?.flush();
      this.send({ type: "failed", run, ...short(failure.toJson()) });
    } finally {
      this.running.delete(run);
      if (!this.closed) this.heard.running(this.running.size, 0);
    }
  }

  private send(message: ToHost): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private end(error: EdgewiseError): void {
    if (this.closed) return;
    this.closed = true;
    this.halt();
    this.heard.over(error);
  }

  private halt(): void {
    for (const generation of this.running.values()) generation.stop();
  }
}

/** Deltas of a run on their way, joined where they would crowd the socket. */
class Pieces {
  private readonly socket: WebSocket;
  private readonly run: string;
  private waiting: Parameters<typeof deltasOf>[0][number][] = [];
  private due = false;

  constructor(socket: WebSocket, run: string) {
    this.socket = socket;
    this.run = run;
  }

  add(delta: Parameters<typeof deltasOf>[0][number]): void {
    this.waiting.push(delta);
    if (this.due) return;
    this.due = true;
    if (this.socket.bufferedAmount > CROWDED) setTimeout(() => this.flush(), CROWDED_MS);
    else queueMicrotask(() => this.flush());
  }

  flush(): void {
    this.due = false;
    if (this.waiting.length === 0) return;
    const message: ToHost = { type: "said", run: this.run, deltas: deltasOf(this.waiting) };
    this.waiting = [];
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}

function gone(code: number, reason: string): EdgewiseError {
  const why = reason === "" ? `${code}` : `${code}, ${reason.slice(0, 100)}`;
  return new EdgewiseError("tab.gone", `The connection to the host was lost (${why}).`);
}

/** An error as the host reads it: texts of at most 4,096 characters. */
function short({ code, message, remedy }: ErrorJson): ErrorJson {
  const known = /^[a-z_]{1,40}(\.[a-z_]{1,40}){0,2}$/.test(code) ? code : "tab.failed";
  return { code: known, message: message.slice(0, 2000), remedy: remedy.slice(0, 2000) };
}
