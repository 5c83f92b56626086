/**
 * Generations over one WebSocket of `edgewise.v1` (docs/protocol.md): many at a time, and none lost where the
 * connection breaks, since each is resumed after the last message that came.
 */

import { EdgewiseError } from "../errors.ts";
import { type Choice, type HostMessage, readHostMessage } from "./host-messages.ts";
import { type HostOptions, openSocket } from "./opening.ts";
import type { AnswerDelta } from "./types.ts";

/** What a generation tells whoever asked for it. */
export interface Listener {
  onPiece(deltas: readonly AnswerDelta[], tokens: readonly number[]): void;
  /** Its choice, or null where it was cancelled before that was whole. */
  onDone(choice: Choice | null): void;
  onError(error: EdgewiseError): void;
}

interface Open {
  readonly message: Readonly<Record<string, unknown>>;
  readonly listener: Listener;
  /** What resumes it; null until it is accepted. */
  secret: string | null;
  /** Number of the last message of it that came. */
  last: number;
  cancelled: boolean;
}

/** Seconds before each try to connect again: altogether as long as the host keeps what was not taken. */
export const AGAIN_S = [0.1, 0.4, 1, 2, 4, 8, 12] as const;
/** Milliseconds between pings while something runs, and for any answer to one. */
const PING_MS = 10_000;

export class HostSocket {
  private readonly options: HostOptions;
  private readonly open = new Map<string, Open>();
  private socket: WebSocket | null = null;
  private connecting = false;
  private ids = 0;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pinging: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  private closed = false;

  constructor(options: HostOptions) {
    this.options = options;
  }

  /**
   * Begin a generation; what comes of it is told to the listener.
   *
   * @returns a function that ends it where it is.
   */
  start(message: Readonly<Record<string, unknown>>, listener: Listener): () => void {
    this.ids += 1;
    const id = `g${this.ids}`;
    const open = {
      message: { ...message, id },
      listener,
      secret: null,
      last: -1,
      cancelled: false,
    };
    if (this.closed) {
      queueMicrotask(() => listener.onError(closed()));
      return () => {};
    }
    this.open.set(id, open);
    if (this.socket) this.send(open.message);
    else void this.connect();
    return () => this.cancel(id);
  }

  /** End all of it. Closing twice is fine. */
  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.failAll(closed());
    this.forget();
  }

  private cancel(id: string): void {
    const open = this.open.get(id);
    if (!open || open.cancelled) return;
    open.cancelled = true;
    if (this.socket) {
      this.send({ type: "cancel", id });
      return;
    }
    // Without a connection nobody can be told: the host gives it up by itself.
    this.open.delete(id);
    open.listener.onDone(null);
  }

  private async connect(): Promise<void> {
    if (this.connecting || this.socket || this.closed) return;
    this.connecting = true;
    let failure: EdgewiseError | null = null;
    try {
      const socket = await openSocket(this.options);
      if (this.closed) socket.close();
      else this.begin(socket);
    } catch (error) {
      failure = EdgewiseError.from(error, "host.gone", "The host does not answer");
    } finally {
      this.connecting = false;
    }
    if (failure) this.lost(failure);
  }

  private begin(socket: WebSocket): void {
    this.socket = socket;
    this.heard = Date.now();
    socket.onmessage = ({ data }) => this.take(data);
    socket.onclose = ({ code, reason }) => {
      if (this.socket !== socket) return;
      this.forget();
      const why = reason === "" ? `${code}` : `${code}, ${reason.slice(0, 100)}`;
      this.lost(new EdgewiseError("host.gone", `The connection to the host was lost (${why}).`));
    };
    this.pinging = setInterval(() => this.ping(), PING_MS);
    for (const [id, { message, secret, last }] of this.open) {
      this.send(secret === null ? message : { type: "resume", id, secret, after: last });
    }
  }

  private ping(): void {
    if (Date.now() - this.heard > 2 * PING_MS) this.socket?.close();
    else if (this.open.size > 0) this.send({ type: "ping" });
  }

  private forget(): void {
    clearInterval(this.pinging);
    const { socket } = this;
    this.socket = null;
    if (socket) socket.onmessage = null;
    socket?.close();
  }

  /** Try again while something is to be resumed, and the host still keeps it. */
  private lost(error: EdgewiseError): void {
    if (this.closed || this.open.size === 0) {
      this.tries = 0;
      return;
    }
    const seconds = AGAIN_S[this.tries];
    const resumable = [...this.open.values()].some(({ secret }) => secret !== null);
    if (seconds === undefined || !resumable || error.code === "host.key") {
      this.tries = 0;
      this.failAll(error);
      return;
    }
    this.tries += 1;
    this.timer = setTimeout(() => void this.connect(), seconds * 1000);
  }

  private take(data: unknown): void {
    this.heard = Date.now();
    try {
      this.obey(readHostMessage(data));
    } catch (cause) {
      const error = EdgewiseError.from(cause, "host.wrong", "The host said what cannot be");
      this.failAll(error);
      this.forget();
    }
  }

  private obey(message: HostMessage): void {
    if (message.type === "pong") return;
    if (message.type === "error" && message.id === null) {
      this.failAll(EdgewiseError.fromJson(message.error));
      return;
    }
    const open = this.open.get(message.id ?? "");
    if (!open) return; // it has been given up here
    switch (message.type) {
      case "accepted":
        open.secret = message.secret;
        if (open.cancelled) this.send({ type: "cancel", id: message.id });
        break;
      case "piece":
        if (message.n <= open.last) return;
        this.tries = 0; // as long as something comes each time
        open.last = message.n;
        open.listener.onPiece(message.deltas, message.tokens);
        break;
      case "done":
        this.open.delete(message.id);
        open.listener.onDone(message.choice);
        break;
      case "error":
        this.open.delete(message.id ?? "");
        open.listener.onError(EdgewiseError.fromJson(message.error));
        break;
    }
  }

  private failAll(error: EdgewiseError): void {
    const all = [...this.open.values()];
    this.open.clear();
    for (const { listener, cancelled } of all) {
      if (cancelled) listener.onDone(null);
      else listener.onError(error);
    }
  }

  private send(message: Readonly<Record<string, unknown>>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}

function closed(): EdgewiseError {
  return new EdgewiseError("host.closed", "The connection to the host is closed.", "Open another.");
}
