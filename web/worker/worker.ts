/** The worker's entry: requests of the page in, answers out. */

import type { Delta } from "../calls/deltas.ts";
import type { Completion, EngineInfo, EngineStatus, TokenLogprob } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import { Attention } from "./attention.ts";
import type { Answer, FromWorker, ToWorker } from "./protocol.ts";
import { throttled } from "./reporter.ts";
import { type Answering, Session } from "./session.ts";

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

function answer(message: Request_): Promise<void> {
  return settle(message.id, act(message));
}

/** Say what a request came to. */
async function settle(id: number, answer: Promise<Answer>): Promise<void> {
  try {
    send({ type: "done", id, value: await answer });
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
      const { id, prompt, wanted, sampling, others } = message;
      const ids = [id, ...others];
      const stopped = new Set<number>();
      for (const one of ids) stops.set(one, () => stopped.add(one));
      const beginning = opened().start(prompt, wanted, sampling, ids.length);
      const choices = ids.map(async (one, index) => {
        const choice = (await beginning)[index];
        if (!choice) throw new EdgewiseError("internal", `Choice ${index} was not begun.`);
        stops.set(one, () => choice.running.cancel());
        if (stopped.has(one)) choice.running.cancel();
        return told(one, choice);
      });
      const [first = null, ...rest] = choices;
      for (const [at, one] of others.entries()) {
        const choice = rest[at];
        if (choice) void settle(one, choice);
      }
      return first;
    }
    case "stats":
      return opened().stats();
    case "metrics":
      return opened().metrics();
    case "trace":
      return opened().traced();
    case "forget":
      await opened().forgetPages();
      return null;
    case "close":
      await closed();
      return null;
  }
}

/** Tell what comes of a generation, and what it came to. */
async function told(id: number, { running, reader, spelling }: Answering): Promise<Completion> {
  let at = 0;
  const likely: TokenLogprob[] = [];
  const spell = () => {
    const drawn = spelling ? running.logprobs.slice(likely.length) : [];
    const spelled = drawn.flatMap((one) => spelling?.logprob(one) ?? []);
    likely.push(...spelled);
    return spelled;
  };
  const tell = (deltas: readonly Delta[]) => {
    if (deltas.length === 0) return;
    const tokens = running.idsFrom(at);
    at += tokens.length;
    send({ type: "deltas", id, deltas, tokens, logprobs: spell() });
  };
  for await (const text of running.pieces) tell(reader.push(text));
  tell(reader.end());
  const completion = reader.completed(await running.completion);
  spell();
  return spelling ? { ...completion, logprobs: likely } : completion;
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

function see(visible: boolean): void {
  attention.set(visible);
  session?.seen(visible);
}

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  // Nobody waits for the answer to a stop: what it stops answers.
  if (data.type === "stop") stops.get(data.id)?.();
  else if (data.type === "visible") see(data.visible);
  else void answer(data);
});
