/** Requests to a worker that are under way: who waits for which answer. */

import { EdgewiseError } from "../errors.ts";
import type { Answer, FromWorker, ToWorker } from "../worker/protocol.ts";
import type { OnDeltas } from "./generation.ts";
import type { Started } from "./start.ts";
import { followVisibility } from "./visibility.ts";

interface Call {
  readonly resolve: (value: Answer) => void;
  readonly reject: (error: EdgewiseError) => void;
  readonly onDeltas: OnDeltas | undefined;
}

/** Without the union's distribution `Omit` would forget which fields go together. */
type Unnumbered<T> = T extends { readonly id: number } ? Omit<T, "id"> : never;

/** Sends requests to a worker and matches what comes back; broadcasts go to `onOther`. */
export class Calls {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Call>();
  private next = 1;
  private failure: EdgewiseError | null = null;
  private readonly unfollow: () => void;

  constructor({ worker, remedy }: Started, onOther: (message: FromWorker) => void) {
    this.worker = worker;
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
      if (!("id" in data)) return onOther(data);
      const call = this.waiting.get(data.id);
      if (data.type === "deltas") return call?.onDeltas?.(data.deltas, data.tokens, data.logprobs);
      this.waiting.delete(data.id);
      if (data.type === "done") call?.resolve(data.value);
      else call?.reject(EdgewiseError.fromJson(data.error));
    });
    const died = (event: Event) => {
      event.preventDefault();
      const said = event instanceof ErrorEvent && event.message ? `: ${event.message}` : "";
      this.end(new EdgewiseError("worker.failed", `The engine's worker stopped${said}.`, remedy));
    };
    worker.addEventListener("error", died);
    worker.addEventListener("messageerror", died);
    this.unfollow = followVisibility((visible) => {
      worker.postMessage({ type: "visible", visible } satisfies ToWorker);
    });
  }

  /** Send a request; `answer` settles when the worker has done it, `id` names it for `stop`. */
  send(
    request: Unnumbered<ToWorker>,
    onDeltas?: OnDeltas,
  ): { readonly id: number; readonly answer: Promise<Answer> } {
    const { id, answer } = this.expect(onDeltas);
    if (!this.failure) this.worker.postMessage({ ...request, id } satisfies ToWorker);
    return { id, answer };
  }

  /** Wait for an answer that a request still to be sent names. */
  expect(onDeltas?: OnDeltas): { readonly id: number; readonly answer: Promise<Answer> } {
    const id = this.next++;
    const answer = new Promise<Answer>((resolve, reject) => {
      if (this.failure) return reject(this.failure);
      this.waiting.set(id, { resolve, reject, onDeltas });
    });
    return { id, answer };
  }

  /** End a load or a generation early; its answer still comes. */
  stop(id: number): void {
    if (this.waiting.has(id)) this.worker.postMessage({ type: "stop", id } satisfies ToWorker);
  }

  /** Refuse everything that waits and whatever comes, and end the worker. */
  end(error: EdgewiseError): void {
    this.failure ??= error;
    for (const call of this.waiting.values()) call.reject(error);
    this.waiting.clear();
    this.unfollow();
    this.worker.terminate();
  }
}
