/** The model that is loaded, or on its way: what the page shows of it. */

import { EdgewiseError, Engine } from "../client/index.ts";
import type { AdapterReport, EngineStatus, LoadProgress, Warning } from "../client/types.ts";
import { Speed } from "./format.ts";
import type { Offer } from "./offers.ts";

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
}

export type ModelState =
  | { readonly kind: "none" }
  | {
      readonly kind: "loading";
      readonly offer: Offer;
      readonly progress: LoadProgress | null;
      /** Bytes a second from the network, 0 until that can be told. */
      readonly speed: number;
    }
  | { readonly kind: "failed"; readonly offer: Offer; readonly failure: Failure }
  | {
      readonly kind: "ready";
      readonly offer: Offer;
      readonly engine: Engine;
      readonly status: EngineStatus;
    };

/** What an error tells a person. */
export function failureOf(error: unknown): Failure {
  const { code, message, remedy } = EdgewiseError.from(error, "internal", "Something went wrong");
  return { code, message, remedy };
}

export interface ModelEvents {
  readonly onState: (state: ModelState) => void;
  readonly onWarning: (warning: Warning) => void;
}

/** Loads one model at a time; loading another ends the one before. */
export class ModelHost {
  private readonly events: ModelEvents;
  private aborting: AbortController | null = null;
  private engine: Engine | null = null;

  constructor(events: ModelEvents) {
    this.events = events;
  }

  async load(offer: Offer): Promise<void> {
    this.cancel();
    await this.engine?.close();
    this.engine = null;
    const aborting = new AbortController();
    this.aborting = aborting;
    const show = (state: ModelState) => {
      if (this.aborting === aborting) this.events.onState(state);
    };
    const speed = new Speed();
    show({ kind: "loading", offer, progress: null, speed: 0 });
    try {
      const engine = await Engine.load(offer.url, {
        signal: aborting.signal,
        onWarning: this.events.onWarning,
        onProgress: (progress) => {
          const fetched = progress.phase === "weights" ? progress.done - progress.cached : 0;
          const grown = speed.add(fetched, performance.now());
          show({ kind: "loading", offer, progress, speed: grown });
        },
        onStatus: (status) => {
          if (this.engine) show({ kind: "ready", offer, engine: this.engine, status });
        },
      });
      if (this.aborting !== aborting) return void engine.close();
      this.engine = engine;
      show({ kind: "ready", offer, engine, status: "ready" });
    } catch (error) {
      const failure = failureOf(error);
      if (failure.code === "load.aborted") show({ kind: "none" });
      else show({ kind: "failed", offer, failure });
    }
  }

  /** Stop loading; what has been downloaded is kept. */
  cancel(): void {
    this.aborting?.abort();
  }
}

/** In a sentence, what WebGPU lacks here; empty where nothing is missing. */
export function whyNot(report: AdapterReport): string {
  return report.available ? "" : report.reason;
}

/** How WebGPU is had in this browser. */
export function howToGetWebGpu(userAgent: string): string {
  if (/iPhone|iPad/.test(userAgent)) return "Update to iOS 26 or newer, whose Safari has WebGPU.";
  if (/Firefox/.test(userAgent)) {
    return "Use Firefox 141 or newer on Windows or macOS, or Chrome or Edge 121 or newer.";
  }
  if (/Safari/.test(userAgent) && !/Chrome/.test(userAgent)) {
    return "Update to Safari 26 or newer, or use Chrome or Edge.";
  }
  if (/Android/.test(userAgent)) return "Use Chrome 121 or newer on Android 12 or newer.";
  return "Use Chrome or Edge 121 or newer, and turn hardware acceleration on in its settings.";
}
