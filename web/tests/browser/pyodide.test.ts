/** Python in a tab: our wheel in Pyodide, over the engines of this package. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { RemoteEngine } from "../../client/remote.ts";
import type {} from "./pages/library.ts";
import { REPOSITORY, WAIT } from "./paths.ts";
import { buildWheel, pythonInNode, servePyodide } from "./python.ts";
import { openSession, type Session } from "./session.ts";

const MODEL = "demo-q4";
const MESSAGES = [{ role: "user", content: "What is a page?" }];
const GREEDY = { temperature: 0, maxTokens: 24 };

/** Chats by the engine `engine`, and tells what came. */
const CHAT = `
import json
generation = await engine.submit_chat(
    [{"role": "user", "content": "What is a page?"}], temperature=0, max_tokens=24
)
pieces = [piece.text async for piece in generation]
completion = await generation.result()
json.dumps({
    "name": engine.info.name,
    "pieces": len(pieces),
    "joined": "".join(pieces),
    "text": completion.text,
    "tokens": completion.token_ids,
    "usage": completion.usage.total_tokens,
    "ttft": completion.timings.ttft_s,
})`;

/** Two choices with log-probabilities: the first is the one that is given alone. */
const LIKELY = `
asked = {"temperature": 0, "max_tokens": 6, "ignore_eos": True, "logprobs": True, "top_logprobs": 2}
alone = await engine.generate("Once upon a time", **asked)
choices = await engine.choices("Once upon a time", n=2, **asked)
drawn = [one for choice in choices for one in choice.logprobs]
json.dumps({
    "alone": choices[0].token_ids == alone.token_ids,
    "told": [len(choice.logprobs) for choice in choices],
    "best": all(one.top[0] == (one.token_id, one.logprob) for one in drawn),
    "possible": all(one.top[1][1] <= one.logprob <= 0 for one in drawn),
})`;

/** Python that tells the code of the error that its block ends with, and of which class it is. */
const failing = (block: string) => `
from edgewise_client import EdgewiseError
try:
${block.replace(/^/gm, "    ")}
    said = "nothing was raised"
except EdgewiseError as error:
    said = f"{type(error).__name__} {error.code}"
said`;

/** The Python that docs/pyodide.md shows: in a tab, and by a host. */
const [IN_A_TAB = "", BY_A_HOST = ""] = [
  ...readFileSync(join(REPOSITORY, "docs", "pyodide.md"), "utf8").matchAll(
    /^```python\n(.*?)^```$/gms,
  ),
].map(([, code]) => code);

const wheel = buildWheel();

describe("Python in Node, by a host", () => {
  let run: (code: string) => Promise<unknown>;

  beforeAll(async () => {
    const pyodide = await pythonInNode(wheel);
    pyodide.globals.set("library", { RemoteEngine });
    pyodide.globals.set("host", inject("host"));
    run = (code) => pyodide.runPythonAsync(code);
    await run(`
from edgewise_client import RemoteEngine
engine = await RemoteEngine.connect(host, library=library, model="${MODEL}")`);
  }, WAIT.timeout);
  afterAll(() => run?.("await engine.close()"));

  it("streams what the engine in TypeScript says", async () => {
    const engine = await RemoteEngine.connect({ host: inject("host"), model: MODEL });
    const said = await engine.chat(MESSAGES, GREEDY).completion;
    await engine.close();
    const told = JSON.parse(String(await run(CHAT)));
    expect(told).toMatchObject({ name: MODEL, text: said.text, tokens: said.tokenIds });
    expect(told.joined).toBe(said.text);
    expect(told.pieces).toBeGreaterThan(0);
    expect(told.usage).toBe(said.usage.totalTokens);
    expect(told.ttft).toBeGreaterThan(0);
  });

  it("says several things at once, from texts and from token ids", async () => {
    const said = await run(`
import asyncio
short = {"temperature": 0, "max_tokens": 6, "ignore_eos": True}
one, other = await asyncio.gather(
    engine.generate("Once upon a time", **short), engine.generate((5, 6, 7), **short)
)
[len(one.token_ids), len(other.token_ids), one.finish_reason]`);
    expect(String(said)).toBe("[6, 6, 'length']");
  });

  it("stops what nobody reads on", async () => {
    const said = await run(`
from contextlib import aclosing
generation = await engine.submit("Once upon a time", max_tokens=900, ignore_eos=True)
async with aclosing(generation.__aiter__()) as pieces:
    async for piece in pieces:
        break
(await generation.result()).finish_reason`);
    expect(said).toBe("cancelled");
  });

  it("stops what a cancelled task was waiting for", async () => {
    const said = await run(`
generation = await engine.submit("Once upon a time", max_tokens=900, ignore_eos=True)
pieces = generation.__aiter__()
await anext(pieces)
waiting = asyncio.create_task(generation.result())
await asyncio.sleep(0)
waiting.cancel()
try:
    await waiting
except asyncio.CancelledError:
    pass
(await generation.result()).finish_reason`);
    expect(said).toBe("cancelled");
  });

  it("calls a tool as docs/pyodide.md shows", async () => {
    const said = await run(`${BY_A_HOST}\nawait look_up(library, host)`);
    expect(typeof said).toBe("string");
  });

  it("calls a tool that it has to call, and hears of it as it is written", async () => {
    const said = await run(`
from edgewise_client.deltas import Arguments, CallBegins
tool = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"at": {"enum": ["sky", "sea"]}}, "required": ["at"],
    "additionalProperties": False}}}
generation = await engine.submit_chat(
    [{"role": "user", "content": "Look!"}], tools=[tool], tool_choice="required",
    temperature=0, max_tokens=80)
deltas = [delta async for piece in generation for delta in piece.deltas]
said = await generation.result()
(call,) = said.tool_calls
written = "".join(delta.text for delta in deltas if isinstance(delta, Arguments))
begun = [delta.name for delta in deltas if isinstance(delta, CallBegins)]
json.dumps([said.finish_reason, call.name, call.arguments, json.loads(written), begun])`);
    const [reason, name, given, written, begun] = JSON.parse(String(said));
    expect([reason, name, begun]).toEqual(["tool_calls", "look", ["look"]]);
    expect(["sky", "sea"]).toContain(given.at);
    expect(written).toEqual(given);
  });

  it.each([
    ["InputError input.sampling", `await engine.generate("A", temperature=-1)`],
    ["UnsupportedError unsupported.remote", `await engine.generate("A", tool_format="hermes")`],
    ["UnsupportedError unsupported.remote", `await engine.generate("A", seed=2**64 - 1)`],
    ["UnsupportedError unsupported.remote", `await engine.generate("A", logprobs=True)`],
    ["UnsupportedError unsupported.tab", `await engine.generate("A", n=2)`],
    ["AbsentError unsupported.tab", `await engine.choices("A", n=2)`],
    ["InputError input.value", `await engine.chat([], tools=[len])`],
    [
      "EdgewiseError host.model",
      `await RemoteEngine.connect(host, library=library, model="nobody's")`,
    ],
  ])("raises %s", async (expected, block) => {
    expect(await run(failing(block))).toBe(expected);
  });
});

describe("Python in a tab", () => {
  let session: Session;

  beforeAll(async () => {
    servePyodide(wheel);
    session = await openSession("swiftshader");
    // Compiling WebAssembly is not among what the host's pages may do.
    session.proxy.shared = true;
  }, WAIT.timeout);
  afterAll(() => session?.close());

  it(
    "chats with the model there, with the tokens of the engine in TypeScript",
    async () => {
      const page = await session.library();
      await page.addScriptTag({ url: "/test/pyodide/pyodide.js" });
      const told = await page.evaluate(
        async ([chat, page, likelihoods]) => {
          const { loadPyodide } = globalThis as unknown as typeof import("pyodide");
          const pyodide = await loadPyodide({ indexURL: "/test/pyodide/" });
          const wheel = await fetch("/test/pyodide/edgewise.whl");
          pyodide.unpackArchive(await wheel.arrayBuffer(), "wheel");
          await pyodide.runPythonAsync(`
import js
from edgewise_client import TabEngine
engine = await TabEngine.load("/bundles/demo-q4/", library=js.library.modules)`);
          const told = String(await pyodide.runPythonAsync(chat));
          const likely = JSON.parse(String(await pyodide.runPythonAsync(likelihoods)));
          await pyodide.runPythonAsync("await engine.close()");
          const shown = await pyodide.runPythonAsync(`${page}\nawait answer(js.library.modules)`);
          return { ...JSON.parse(told), shown, likely };
        },
        [CHAT, IN_A_TAB, LIKELY] as const,
      );
      const loaded = await page.evaluate(() => library.load("demo", "/bundles/demo-q4/", {}));
      expect(loaded).toMatchObject({ value: { name: MODEL } });
      const said = await page.evaluate(
        ([messages, options]) => library.chat("demo", messages, options),
        [MESSAGES, GREEDY] as const,
      );
      if (!("value" in said)) throw new Error(said.error.message);
      const { text, tokenIds } = said.value.completion;
      expect(told).toMatchObject({ name: MODEL, text, joined: text, tokens: tokenIds });
      expect(told.pieces).toBeGreaterThan(2);
      expect(typeof told.shown).toBe("string");
      expect(told.likely).toEqual({ alone: true, told: [6, 6], best: true, possible: true });
      // A page without a policy asks for an icon, which its host does not have.
      const missed = session.proxy.fetched.filter(({ status }) => status >= 400);
      expect(missed.filter(({ path }) => path !== "/favicon.ico")).toEqual([]);
    },
    WAIT.timeout,
  );
});
