/**
 * Lends a model that is loaded here to the host: it asks over a WebSocket, this page's GPU answers.
 *
 * docs/tabs.md has the messages. What the host says is checked as files are: it may have been replaced.
 */

import { EdgewiseError } from "../errors.ts";
import { Connection, DEAD, type Lendable } from "./lend-connection.ts";
import { type HostOptions, openSocket } from "./opening.ts";

export type { Lendable };

export type LendState =
  | { readonly kind: "connecting" }
  /** The host asks; `served` counts the answers so far, those that run included. */
  | { readonly kind: "lending"; readonly running: number; readonly served: number }
  /** The connection was lost, and is tried again. */
  | { readonly kind: "waiting"; readonly seconds: number; readonly error: EdgewiseError }
  /** The host does not want it, or the engine answers no more. */
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
/** Codes of errors after which trying again is no use. */
const FINAL = new Set(["tab.bundle", "tab.model", "tab.unwanted", "tab.wrong", ...DEAD]);

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
