/** Lending an engine, over real sockets to a host that says what each test needs. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AGAIN_S, type Lending, type LendState, lend } from "../../client/lend.ts";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens } from "../engine/expected.ts";
import { request, textOf } from "../engine/support.ts";
import { INFO, type ReferenceLendable, referenceLendable, SLOTS } from "./reference-lendable.ts";
import { type Peer, type ScriptedHost, startScriptedHost } from "./scripted-host.ts";

const PROMPT = [7, 19, 40];
const LENT = { type: "lent", tab: "t1", beat_s: 5 };
const LOST = new EdgewiseError("device.lost", "The GPU was lost.", "Reload the page.");

let host: ScriptedHost;
let lending: Lending | null = null;
let states: LendState[] = [];

/** A run that goes on for as many tokens as it may. */
const run = (id: string, maxTokens: number) => ({
  type: "run",
  run: id,
  prompt: PROMPT,
  options: { temperature: 0, max_tokens: maxTokens, ignore_eos: true },
});

const expected = (maxTokens: number) =>
  expectedTokens(PROMPT, request(PROMPT, { maxTokens, ignoreEos: true }).params);

/** A host's end of a connection on which an engine is lent. */
async function lent(engine: ReferenceLendable): Promise<Peer> {
  lending = lend(engine, {
    host: host.url,
    model: "demo",
    onState: (state) => states.push(state),
  });
  return await welcomed();
}

async function welcomed(): Promise<Peer> {
  const peer = await host.next();
  expect(await peer.next()).toMatchObject({ type: "lend" });
  peer.say(LENT);
  return peer;
}

/** The next message of a type, whatever comes before it. */
async function heard(peer: Peer, type: string) {
  for (;;) {
    const message = await peer.next();
    if (message.type === type) return message;
  }
}

async function stateOf<K extends LendState["kind"]>(kind: K) {
  await vi.waitFor(() => expect(states.at(-1)?.kind).toBe(kind), 10_000);
  return states.at(-1) as Extract<LendState, { kind: K }>;
}

/** Results of the model that arrive only once the gate is opened. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, arrive: () => opened };
}

beforeEach(async () => {
  states = [];
  host = await startScriptedHost();
});
afterEach(async () => {
  vi.useRealTimers();
  lending?.stop();
  await host.close();
});

describe("an engine that is lent", () => {
  it("says what it is, by digest", async () => {
    lending = lend(referenceLendable(), { host: host.url, model: "demo" });
    const peer = await host.next();
    expect(await peer.next()).toEqual({
      type: "lend",
      model: "demo",
      bundle: INFO.digest,
      tokenizer: INFO.tokenizer,
      program: INFO.program,
      device: "A GPU",
      context: 256,
      slots: SLOTS,
    });
  });

  it("answers side by side, piece by piece, and counts it", async () => {
    const peer = await lent(referenceLendable());
    peer.say(run("r1", 9));
    peer.say(run("r2", 9));
    const texts = new Map<unknown, string>();
    const choices = new Map<unknown, unknown>();
    while (choices.size < 2) {
      const { type, run, deltas, choice } = await peer.next();
      if (type === "ended") choices.set(run, choice);
      else {
        expect([type, choices.has(run)]).toEqual(["said", false]);
        const said = (deltas as { text: string }[]).map(({ text }) => text).join("");
        texts.set(run, (texts.get(run) ?? "") + said);
      }
    }
    const text = textOf(expected(9));
    const choice = { reason: "length", text, token_ids: expected(9) };
    for (const run of ["r1", "r2"]) {
      expect(texts.get(run)).toBe(text);
      expect(choices.get(run)).toMatchObject(choice);
    }
    await vi.waitFor(() =>
      expect(states.at(-1)).toEqual({ kind: "lending", running: 0, served: 2 }),
    );
  });

  it("ends an answer that is halted, and says so", async () => {
    const { open, arrive } = gate();
    const peer = await lent(referenceLendable(arrive));
    peer.say(run("r1", 200));
    peer.say({ type: "halt", run: "r1" });
    peer.say({ type: "halt", run: "r9" });
    open();
    const { choice } = await heard(peer, "ended");
    expect(choice).toMatchObject({ reason: "cancelled" });
  });

  it("fails what it is asked wrongly, and answers the next", async () => {
    const peer = await lent(referenceLendable());
    const asked = run("r1", 4);
    peer.say({ ...asked, options: { ...asked.options, logprobs: true } });
    expect(await peer.next()).toMatchObject({
      type: "failed",
      run: "r1",
      code: "unsupported.tab",
    });
    peer.say({ ...asked, run: "r2", prompt: [...PROMPT, 4096] });
    expect(await peer.next()).toMatchObject({
      type: "failed",
      run: "r2",
      code: expect.stringMatching(/^input\./),
    });
    peer.say(run("r3", 4));
    expect((await heard(peer, "ended")).choice).toMatchObject({ token_ids: expected(4) });
  });

  it("answers beats while it works", async () => {
    const { open, arrive } = gate();
    const peer = await lent(referenceLendable(arrive));
    peer.say(run("r1", 3));
    peer.say({ type: "beat", beat: 17 });
    expect(await peer.next()).toEqual({ type: "alive", beat: 17 });
    open();
    await heard(peer, "ended");
  });

  it("ends what runs when it is taken back", async () => {
    const { open, arrive } = gate();
    const engine = referenceLendable(arrive);
    const peer = await lent(engine);
    peer.say(run("r1", 200));
    await vi.waitFor(() => expect(engine.busy()).toBe(1));
    lending?.stop();
    lending?.stop();
    await peer.closed;
    open();
    await vi.waitFor(() => expect(engine.busy()).toBe(0));
    expect(states.filter(({ kind }) => kind === "ended")).toHaveLength(1);
    expect(states.at(-1)?.kind).toBe("ended");
  });
});

describe("a connection that is lost", () => {
  it.each<[string, (peer: Peer) => void]>([
    ["closed", (peer) => peer.close(1012)],
    ["done without", (peer) => peer.close(4002)],
    ["broken", (peer) => peer.drop()],
  ])("ends what ran, and is made again: %s", async (_, lose) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { open, arrive } = gate();
    const engine = referenceLendable(arrive);
    const peer = await lent(engine);
    peer.say(run("r1", 200));
    await vi.waitFor(() => expect(engine.busy()).toBe(1));
    lose(peer);
    const { seconds, error } = await stateOf("waiting");
    expect([seconds, error.code]).toEqual([AGAIN_S[0], "tab.gone"]);
    open();
    await vi.waitFor(() => expect(engine.busy()).toBe(0));
    vi.advanceTimersByTime(1000 * seconds);
    const again = await welcomed();
    again.say(run("r2", 4));
    expect((await heard(again, "ended")).choice).toMatchObject({ token_ids: expected(4) });
  });

  it("is tried for less and less often while nobody is there", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    await host.close();
    lending = lend(referenceLendable(), {
      host: host.url,
      onState: (state) => states.push(state),
    });
    for (const seconds of [...AGAIN_S, AGAIN_S.at(-1) ?? 0]) {
      expect((await stateOf("waiting")).seconds).toBe(seconds);
      vi.advanceTimersByTime(1000 * seconds);
      expect(states.at(-1)?.kind).toBe("connecting");
    }
  });

  it("is noticed where the host says nothing any more", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const peer = await lent(referenceLendable());
    await stateOf("lending");
    vi.advanceTimersByTime(19_000);
    peer.say({ type: "beat", beat: 1 });
    await heard(peer, "alive");
    vi.advanceTimersByTime(19_000);
    expect(states.at(-1)?.kind).toBe("lending");
    vi.advanceTimersByTime(1000);
    const { error } = await stateOf("waiting");
    expect(error).toMatchObject({ code: "host.gone", message: expect.stringContaining("20 s") });
    await peer.closed;
  });
});

describe("lending ends for good", () => {
  it.each(["tab.bundle", "tab.model", "tab.unwanted"])("where the host says %s", async (code) => {
    lending = lend(referenceLendable(), {
      host: host.url,
      onState: (state) => states.push(state),
    });
    const peer = await host.next();
    peer.say({ type: "error", code, message: "Not this.", remedy: "Another." });
    expect((await stateOf("refused")).error).toMatchObject({ code, message: "Not this." });
    await peer.closed;
  });

  it("but not where there are too many tabs for now", async () => {
    lending = lend(referenceLendable(), {
      host: host.url,
      onState: (state) => states.push(state),
    });
    const peer = await host.next();
    peer.say({ type: "error", code: "engine.busy", message: "32 tabs.", remedy: "" });
    expect((await stateOf("waiting")).error.code).toBe("engine.busy");
  });

  it.each<[string, (peer: Peer) => void]>([
    ["no JSON", (peer) => peer.say("{")],
    [
      "a run twice",
      (peer) => {
        peer.say(run("r1", 200));
        peer.say(run("r1", 200));
      },
    ],
    [
      "more runs than slots",
      (peer) => {
        for (let i = 0; i <= SLOTS; i++) peer.say(run(`r${i}`, 200));
      },
    ],
  ])("where the host says what cannot be: %s", async (_, say) => {
    const { open, arrive } = gate();
    const engine = referenceLendable(arrive);
    const peer = await lent(engine);
    say(peer);
    expect((await stateOf("refused")).error.code).toBe("tab.wrong");
    await peer.closed;
    open();
    await vi.waitFor(() => expect(engine.busy()).toBe(0));
  });

  it("where the GPU is lost: what was not begun is left to other tabs", async () => {
    const { arrive } = gate();
    const engine = referenceLendable(arrive);
    const peer = await lent(engine);
    peer.say(run("r1", 200));
    await vi.waitFor(() => expect(engine.busy()).toBe(1));
    engine.die(LOST);
    expect((await stateOf("refused")).error).toMatchObject(LOST.toJson());
    await peer.closed;
    expect(peer.unread).toEqual([]);
  });

  it("where the GPU is lost: what was begun fails, and says why", async () => {
    let arrived = 0;
    const engine = referenceLendable(() =>
      ++arrived > 3 ? new Promise(() => {}) : Promise.resolve(),
    );
    const peer = await lent(engine);
    peer.say(run("r1", 200));
    await heard(peer, "said");
    engine.die(LOST);
    expect(await heard(peer, "failed")).toMatchObject({ run: "r1", ...LOST.toJson() });
    expect((await stateOf("refused")).error.code).toBe("device.lost");
    await peer.closed;
  });

  it("where the worker is gone when a beat asks for it", async () => {
    const engine = referenceLendable();
    const peer = await lent(engine);
    engine.die(new EdgewiseError("worker.failed", "The engine's worker stopped."));
    peer.say({ type: "beat", beat: 1 });
    expect((await stateOf("refused")).error.code).toBe("worker.failed");
    await peer.closed;
  });
});
