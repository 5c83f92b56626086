/** The worker's entry: requests of the page in, answers out. */

import type { Delta } from "../calls/deltas.ts";
import type { EngineInfo, EngineStatus } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import { Attention } from "./attention.ts";
import type { Answer, FromWorker, ToWorker } from "./protocol.ts";
import { throttled } from "./reporter.ts";
import { Session } from "./session.ts";

/** What has an answer. */
type Request_ = Exclude<ToWorker, { readonly type: "stop" | "visible" }>;

const stops = new Map<number, () => void>();
const attention = new Attention();
let session: Session | null = null;

function send(message: FromWorker): void {
  self.postMessage(message);
}

const reporter = throttled(
  (progress) => send({ type: "progress", progress }),
  (warning) => send({ type: "warning", warning }),
);

async function answer(message: Request_): Promise<void> {
  const { id } = message;
  try {
    send({ type: "done", id, value: await act(message) });
  } catch (error) {
    const known = EdgewiseError.from(error, "internal", "Something went wrong inside edgewise");
    send({ type: "failed", id, error: known.toJson() });
  } finally {
    stops.delete(id);
  }
}

async function act(message: Request_): Promise<Answer> {
  switch (message.type) {
    case "load": {
      const aborting = new AbortController();
      stops.set(message.id, () => aborting.abort());
      const onStatus = (status: EngineStatus) => send({ type: "status", status });
      const onInfo = (info: EngineInfo) => send({ type: "info", info });
      const events = { reporter, onStatus, onInfo, attention };
      session = await Session.open(message.request, events, aborting.signal);
      return session.info;
    }
    case "generate": {
      const { id } = message;
      let stopped = false;
      stops.set(id, () => {
        stopped = true;
      });
      const { prompt, wanted, sampling } = message;
      const { running, reader } = await opened().start(prompt, wanted, sampling);
      stops.set(id, () => running.cancel());
      if (stopped) running.cancel();
      const tell = (deltas: readonly Delta[]) => {
        if (deltas.length > 0) send({ type: "deltas", id, deltas });
      };
      for await (const text of running.pieces) tell(reader.push(text));
      tell(reader.end());
      return reader.completed(await running.completion);
    }
    case "stats":
      return opened().stats();
    case "forget":
      await opened().forgetPages();
      return null;
    case "close":
      await closed();
      return null;
  }
}

async function closed(): Promise<void> {
  const closing = session;
  session = null;
  await closing?.close();
}

function opened(): Session {
  if (session) return session;
  throw new EdgewiseError("device.closed", "No model is loaded.", "Load one first.");
}

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  // Nobody waits for the answer to a stop: what it stops answers.
  if (data.type === "stop") stops.get(data.id)?.();
  else if (data.type === "visible") attention.set(data.visible);
  else void answer(data);
});
