/** One socket over which a model is lent, from its opening to its end; docs/tabs.md has the messages. */

import { EdgewiseError, type ErrorJson } from "../errors.ts";
import { lentOptions } from "./lend-options.ts";
import { type FromHost, type Run, readFromHost, type ToHost } from "./lend-protocol.ts";
import type { ChatOptions, Completion, EngineInfo, Generation, Message } from "./types.ts";
import { choiceOf, deltasOf } from "./wire.ts";

/** Bytes that wait to be sent above which pieces are joined. */
const CROWDED = 1 << 16;
const CROWDED_MS = 20;
/** Beats that may be missed before the host is taken for gone, and what is waited for the first one. */
const MISSED = 4;
const FIRST_MS = 20_000;
/** Codes of errors of an engine that answers nothing any more. */
export const DEAD = new Set(["device.closed", "device.lost", "engine.closed", "worker.failed"]);
/** What can be lent: an `Engine`. */
export interface Lendable {
  readonly info: EngineInfo;
  chat(messages: readonly Message[], options?: ChatOptions): Generation;
  generate(prompt: string | readonly number[], options?: ChatOptions): Generation;
  stats(): Promise<unknown>;
}

/** Who is told what comes of it. */
interface Heard {
  /** So many run now, and so many began. */
  running(running: number, begun: number): void;
  /** The connection is lost, once. */
  over(error: EdgewiseError): void;
}

/** Says what the engine has, does what the host asks, and is over once. */
export class Connection {
  private readonly socket: WebSocket;
  private readonly engine: Lendable;
  private readonly heard: Heard;
  private readonly running = new Map<string, Generation>();
  private readonly slots: number;
  private error: EdgewiseError | null = null;
  private closed = false;
  private lent = false;
  private silentMs = FIRST_MS;
  private watching: ReturnType<typeof setTimeout> | undefined;

  constructor(socket: WebSocket, engine: Lendable, model: string | undefined, heard: Heard) {
    this.socket = socket;
    this.engine = engine;
    this.heard = heard;
    socket.onmessage = ({ data }) => this.take(data);
    socket.onclose = ({ code, reason }) => this.end(this.error ?? gone(code, reason));
    const { info } = engine;
    this.slots = Math.min(info.slots, 64);
    this.send({
      type: "lend",
      model: model ?? info.name,
      bundle: info.digest,
      tokenizer: info.tokenizer,
      program: info.program,
      device: info.adapter.name.slice(0, 256),
      context: info.context,
      slots: this.slots,
    });
    this.watch();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.watching);
    this.socket.close(1000);
    this.halt();
  }

  private take(data: unknown): void {
    if (this.closed) return;
    this.watch();
    try {
      this.obey(readFromHost(data));
    } catch (error) {
      this.leave(EdgewiseError.from(error, "tab.wrong", "The host said what cannot be"));
    }
  }

  /** A host whose machine sleeps closes nothing: it says no more. */
  private watch(): void {
    clearTimeout(this.watching);
    this.watching = setTimeout(() => {
      const seconds = this.silentMs / 1000;
      this.leave(new EdgewiseError("host.gone", `The host has said nothing for ${seconds} s.`));
    }, this.silentMs);
  }

  private obey(message: FromHost): void {
    switch (message.type) {
      case "lent":
        this.lent = true;
        this.silentMs = MISSED * message.beatS * 1000;
        this.watch();
        this.heard.running(0, 0);
        break;
      case "run":
        this.admit(message);
        void this.run(message);
        break;
      case "halt":
        this.running.get(message.run)?.stop();
        break;
      case "beat":
        // By way of the worker, whose answers they stand for.
        void this.engine.stats().then(
          () => this.send({ type: "alive", beat: message.beat }),
          (error: unknown) => this.leave(EdgewiseError.from(error, "worker.failed", "It stopped")),
        );
        break;
      case "error":
        this.error = EdgewiseError.fromJson(message.error);
        // Who is not taken is not hung up on, and would wait for ever.
        if (!this.lent) this.leave(this.error);
        break;
    }
  }

  private admit({ run }: Run): void {
    if (!this.lent) throw new EdgewiseError("tab.wrong", `Run ${run} comes before 'lent'.`);
    if (this.running.has(run)) throw new EdgewiseError("tab.wrong", `Run ${run} runs already.`);
    if (this.running.size < this.slots) return;
    throw new EdgewiseError("tab.wrong", `Run ${run} is one more than the ${this.slots} lent.`);
  }

  private async run({ run, messages, prompt, tools, variables, options }: Run): Promise<void> {
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
      const dead = DEAD.has(failure.code);
      pieces?.flush();
      // What a dead engine has not begun, the host gives to another tab once this one has left.
      if (!dead || pieces?.begun) this.send({ type: "failed", run, ...short(failure.toJson()) });
      if (dead) this.leave(failure);
    } finally {
      this.running.delete(run);
      if (!this.closed) this.heard.running(this.running.size, 0);
    }
  }

  private send(message: ToHost): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /** Hang up, for this reason. */
  private leave(error: EdgewiseError): void {
    this.socket.close(1000);
    this.end(error);
  }

  private end(error: EdgewiseError): void {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.watching);
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
  /** Whether the host was told anything. */
  begun = false;

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
    this.begun = true;
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
