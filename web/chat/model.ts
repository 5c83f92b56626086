/** The model that is loaded, or on its way: what the page shows of it. */

import { Engine } from "../client/index.ts";
import type { EngineStatus, LoadProgress, Warning } from "../client/types.ts";
import type { LoadChoice } from "./choices.ts";
import { type Failure, failureOf } from "./failure.ts";
import { Speed } from "./format.ts";
import type { Offer } from "./offers.ts";
import { pagesLimit } from "./preferences.ts";

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

export interface ModelEvents {
  readonly onState: (state: ModelState) => void;
  readonly onWarning: (warning: Warning) => void;
}

export interface ModelHost {
  /** Load a model; loading another ends the one before. */
  load(offer: Offer, choice: LoadChoice): Promise<void>;
  /** Stop loading; what has been downloaded is kept. */
  cancel(): void;
}

/** Holds one model at a time. */
export function createModelHost({ onState, onWarning }: ModelEvents): ModelHost {
  let aborting: AbortController | null = null;
  let engine: Engine | null = null;

  const load = async (offer: Offer, choice: LoadChoice) => {
    aborting?.abort();
    const mine = new AbortController();
    aborting = mine;
    const show = (state: ModelState) => {
      if (aborting === mine) onState(state);
    };
    const speed = new Speed();
    show({ kind: "loading", offer, progress: null, speed: 0 });
    const before = engine;
    engine = null;
    await before?.close();
    try {
      const keepPages = pagesLimit();
      const loaded = await Engine.load(offer.url, {
        ...choice,
        ...(keepPages === null ? {} : { keepPages }),
        signal: mine.signal,
        onWarning: (warning) => {
          if (aborting === mine) onWarning(warning);
        },
        onProgress: (progress) => {
          const fetched = progress.phase === "weights" ? progress.done - progress.cached : 0;
          show({ kind: "loading", offer, progress, speed: speed.add(fetched, performance.now()) });
        },
        onStatus: (status) => {
          if (engine) show({ kind: "ready", offer, engine, status });
        },
      });
      if (aborting !== mine) return await loaded.close();
      engine = loaded;
      show({ kind: "ready", offer, engine: loaded, status: "ready" });
      const told = WHERE_KEPT[loaded.info.storage];
      if (told) onWarning(told);
    } catch (error) {
      const failure = failureOf(error);
      if (failure.code === "load.aborted") show({ kind: "none" });
      else show({ kind: "failed", offer, failure });
    }
  };

  return { load, cancel: () => aborting?.abort() };
}

/** What a person should know of where weights are kept. */
const WHERE_KEPT: Readonly<Record<Engine["info"]["storage"], Warning | null>> = {
  opfs: null,
  indexeddb: {
    code: "store.indexeddb",
    message: "This browser keeps models in IndexedDB, which is slower to load from.",
    remedy: "",
  },
  memory: {
    code: "store.memory",
    message: "This browser keeps nothing for this page: the model is downloaded again next time.",
    remedy: "Leave private browsing, or allow this page to keep data.",
  },
};
