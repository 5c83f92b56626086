/// <reference types="dom-chromium-ai" />
/** The Prompt API over an engine, asked as its specification and web-platform-tests say. */

import { describe, expect, it, vi } from "vitest";
import { languageModel } from "../../adapters/prompt-api/index.ts";
import type { CalledTool, ChatOptions } from "../../client/types.ts";
import { EdgewiseError } from "../../errors.ts";
import { readRegex } from "../../grammar/regex-reader.ts";
import { CONTEXT, engineSaying, type Said } from "./scripted-engine.ts";

function engineOf(...says: Said[]) {
  const { engine, asked } = engineSaying(...says);
  return { LanguageModel: languageModel(engine), asked };
}

const user = (content: string) => ({ role: "user", content }) as const;
const assistant = (content: string) => ({ role: "assistant", content }) as const;
const system = (content: string) => ({ role: "system", content }) as const;
const nameOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "none",
    (error: Error) => error.name,
  );

function patternOf(format: ChatOptions["responseFormat"]): string {
  if (typeof format === "object" && format.type === "regex") return format.pattern;
  throw new Error("the answer is to match no expression");
}

/** Chromium's session as pages have it, where `topK` and `temperature` are not there. */
type Theirs = Omit<LanguageModel, "topK" | "temperature" | "clone" | keyof EventTarget>;

it("is what pages that know the types of Chromium's expect", async () => {
  const { LanguageModel: ours } = engineOf("Yes.");
  const create: (options: LanguageModelCreateOptions) => Promise<Theirs> = (options) =>
    ours.create(options);
  const session = await create({ initialPrompts: [{ role: "system", content: "Be kind." }] });
  expect(await session.prompt("Rain?")).toBe("Yes.");
});

describe("availability", () => {
  it("is there for text and tools, and not for images and audio", async () => {
    const { LanguageModel } = engineOf();
    const languages = ["en", "de-CH-1901"];
    expect(await LanguageModel.availability()).toBe("available");
    const expectedInputs = [{ type: "text", languages }, { type: "tool-response" }] as const;
    expect(await LanguageModel.availability({ expectedInputs })).toBe("available");
    for (const type of ["image", "audio"] as const) {
      expect(await LanguageModel.availability({ expectedInputs: [{ type }] })).toBe("unavailable");
    }
  });

  it("is refused for what is no type and no language", async () => {
    const { LanguageModel } = engineOf();
    const type = "smell" as "text";
    expect(await nameOf(LanguageModel.availability({ expectedInputs: [{ type }] }))).toBe(
      "TypeError",
    );
    const odd = [{ type: "text", languages: ["no tag"] }] as const;
    expect(await nameOf(LanguageModel.availability({ expectedOutputs: odd }))).toBe("RangeError");
  });
});

describe("create", () => {
  it("reads the initial prompts, and asks with the settings", async () => {
    const { LanguageModel, asked } = engineOf("Yes.");
    const initialPrompts = [system("Be kind."), user("A?"), assistant("B.")];
    const session = await LanguageModel.create({ initialPrompts, temperature: 9, topK: 3.7 });
    expect(session).toBeInstanceOf(LanguageModel);
    expect(session.contextUsage).toBe(12);
    expect(session.contextWindow).toBe(CONTEXT);
    expect(await session.prompt("C?")).toBe("Yes.");
    expect(asked[0]?.messages).toEqual([...initialPrompts, user("C?")]);
    expect(asked[0]?.options).toMatchObject({ temperature: 2, topK: 3, maxTokens: CONTEXT });
    expect(session.contextUsage).toBe(12 + 2 + 4);
    expect([session.inputUsage, session.inputQuota]).toEqual([18, CONTEXT]);
  });

  it("has modes of sampling, not together with numbers", async () => {
    const { LanguageModel, asked } = engineOf();
    const session = await LanguageModel.create({ samplingMode: "most-predictable" });
    await session.prompt("?");
    expect(session.samplingMode).toBe("most-predictable");
    expect(asked[0]?.options.temperature).toBe(0);
    const both = { samplingMode: "creative", topK: 3 } as const;
    expect(await nameOf(LanguageModel.create(both))).toBe("TypeError");
  });

  it.each<[string, object]>([
    ["TypeError", { samplingMode: "wild" }],
    ["RangeError", { temperature: -1 }],
    ["RangeError", { topK: 0 }],
    ["TypeError", { tools: [{ name: "x" }] }],
    ["NotSupportedError", { expectedInputs: [{ type: "image" }] }],
    ["TypeError", { initialPrompts: [user("?"), system("late")] }],
    ["SyntaxError", { initialPrompts: [{ ...assistant("So"), prefix: true }] }],
    ["QuotaExceededError", { initialPrompts: [user("x".repeat(CONTEXT + 1))] }],
    ["AbortError", { signal: AbortSignal.abort() }],
  ])("throws a %s for %j", async (name, options) => {
    const { LanguageModel } = engineOf();
    expect(await nameOf(LanguageModel.create(options))).toBe(name);
  });

  it("is the only way to a session", async () => {
    const { LanguageModel } = engineOf();
    const session = await LanguageModel.create();
    const Same = session.constructor as new () => unknown;
    expect(() => new Same()).toThrow(TypeError);
    expect(String(session)).toBe("[object LanguageModel]");
  });
});

describe("prompt", () => {
  it("goes on with the conversation, and a clone without knowing of it", async () => {
    const { LanguageModel, asked } = engineOf("1.", "2.", "3.");
    const session = await LanguageModel.create();
    await session.prompt("A?");
    const clone = await session.clone();
    await session.prompt([user("B?"), assistant("Hm."), user("?")]);
    await clone.prompt([]);
    expect(asked[1]?.messages.map(({ content }) => content)).toEqual([
      "A?",
      "1.",
      "B?",
      "Hm.",
      "?",
    ]);
    expect(asked[2]?.messages.map(({ content }) => content)).toEqual(["A?", "1.", ""]);
    expect(clone).toBeInstanceOf(LanguageModel);
  });

  it("takes parts of text as one text, and what is no prompt as a string", async () => {
    const { LanguageModel, asked } = engineOf();
    const session = await LanguageModel.create();
    const part = (value: string) => ({ type: "text", value }) as const;
    await session.prompt([{ role: "user", content: [part("a"), part("b")] }]);
    await session.prompt({} as string);
    expect(asked[0]?.messages).toEqual([user("ab")]);
    expect(asked[1]?.messages.at(-1)).toEqual(user("[object Object]"));
  });

  it.each<[string, unknown]>([
    ["NotSupportedError", [{ role: "user", content: [{ type: "image", value: new Blob() }] }]],
    ["NotSupportedError", [{ role: "user", content: [{ type: "audio", value: new Blob() }] }]],
    ["TypeError", [{ role: "user", content: [{ type: "text", value: 7 }] }]],
    ["TypeError", [{ role: "robot", content: "?" }]],
    ["TypeError", [{ role: "user" }]],
    ["TypeError", [7]],
    ["TypeError", [user("?"), system("late")]],
    ["SyntaxError", [{ ...assistant("So"), prefix: true }, user("?")]],
  ])("throws a %s for %j", async (name, input) => {
    const { LanguageModel, asked } = engineOf();
    const session = await LanguageModel.create();
    expect(await nameOf(session.prompt(input as string))).toBe(name);
    expect(asked).toEqual([]);
  });

  it("refuses a system prompt once something was said", async () => {
    const { LanguageModel } = engineOf();
    const session = await LanguageModel.create();
    await session.prompt([system("Be kind."), user("?")]);
    expect(await nameOf(session.prompt([system("Be rude."), user("?")]))).toBe("TypeError");
  });

  it("answers one after the other", async () => {
    const { LanguageModel, asked } = engineOf("1.", "2.");
    const session = await LanguageModel.create();
    const both = [session.prompt("A?"), session.prompt("B?")];
    expect(await Promise.all(both)).toEqual(["1.", "2."]);
    expect(asked[1]?.messages).toHaveLength(3);
  });

  it("begins an answer with a prefix, and does not say it again", async () => {
    const { LanguageModel, asked } = engineOf("{x}: it is so", "2.");
    const session = await LanguageModel.create();
    const prefix = { ...assistant("{x}:"), prefix: true };
    expect(await session.prompt([user("?"), prefix])).toBe(" it is so");
    const { responseFormat } = asked[0]?.options ?? {};
    expect(responseFormat).toEqual({ type: "regex", pattern: "\\{x\\}:[^\\x00]*" });
    await session.prompt("?");
    expect(asked[1]?.messages[1]).toEqual(assistant("{x}: it is so"));
  });

  it.each(["```toml\n", "(a|b)*[c] {2,3} \\d ^$.+?/-", '{"é": "日本\u{1f600}', "\t#&~"])(
    "has an expression for the prefix %j that the engine reads",
    async (content) => {
      const { LanguageModel, asked } = engineOf(`${content}!`);
      const session = await LanguageModel.create();
      await session.prompt([user("?"), { ...assistant(content), prefix: true }]);
      const pattern = patternOf(asked[0]?.options.responseFormat);
      expect(() => readRegex(pattern)).not.toThrow();
      expect(`${content}what\never`).toMatch(new RegExp(`^(?:${pattern})$`, "u"));
      expect(`!${content}`).not.toMatch(new RegExp(`^(?:${pattern})$`, "u"));
    },
  );

  it.each([
    ["NotSupportedError", "unsupported.schema"],
    ["SyntaxError", "input.regex"],
    ["UnknownError", "device.lost"],
  ])("throws a %s for the engine's %s, which is its cause", async (name, code) => {
    const error = new EdgewiseError(code, "It went wrong.", "Do it again.");
    const session = await engineOf(error).LanguageModel.create();
    const thrown: unknown = await session.prompt("?").catch((caught: unknown) => caught);
    expect(thrown).toBeInstanceOf(DOMException);
    expect(thrown).toMatchObject({ name, cause: error, message: "It went wrong. Do it again." });
    expect(session.contextUsage).toBe(0);
  });
});

describe("responseConstraint", () => {
  const schema = { type: "object", required: ["rating"] };
  const json_schema = { name: "answer", schema };

  it("is a JSON schema, of which the model is told", async () => {
    const { LanguageModel, asked } = engineOf('{"rating":1}');
    const session = await LanguageModel.create();
    const options = { responseConstraint: schema };
    expect(JSON.parse(await session.prompt("?", options))).toEqual({ rating: 1 });
    expect(asked[0]?.options.responseFormat).toEqual({ type: "json_schema", json_schema });
    expect(asked[0]?.messages[0]?.content).toContain(JSON.stringify(schema));
  });

  it("is a regular expression, of which the model is not told where that is wanted", async () => {
    const { LanguageModel, asked } = engineOf("no");
    const session = await LanguageModel.create();
    const options = { responseConstraint: /^(?:yes|no)$/u, omitResponseConstraintInput: true };
    await session.prompt("?", options);
    const responseFormat = { type: "regex", pattern: "^(?:yes|no)$" };
    expect(asked[0]).toMatchObject({ messages: [user("?")], options: { responseFormat } });
  });

  it.each<[string, object]>([
    ["NotSupportedError", { responseConstraint: /yes/i }],
    ["TypeError", { responseConstraint: "yes" }],
    ["TypeError", { responseConstraint: [] }],
    ["TypeError", { omitResponseConstraintInput: true }],
  ])("throws a %s for %o", async (name, options) => {
    const session = await engineOf().LanguageModel.create();
    expect(await nameOf(session.prompt("?", options))).toBe(name);
  });

  it("throws where the context ended before the answer was whole", async () => {
    const session = await engineOf({ cut: "ye" }).LanguageModel.create();
    expect(await nameOf(session.prompt("?", { responseConstraint: /yes/ }))).toBe("SyntaxError");
  });
});

describe("tools", () => {
  const call = (id: string, of: string): CalledTool => ({
    id,
    name: "rain",
    text: JSON.stringify({ in: of }),
    arguments: { in: of },
  });
  const tool = { name: "rain", description: "Whether it rains", inputSchema: { type: "object" } };

  it("are run at once, and the answer goes on with their results", async () => {
    const { LanguageModel, asked } = engineOf(
      { calls: [call("1", "Rome"), call("2", "Bern")] },
      "Wet.",
    );
    const execute = vi.fn(async ({ in: of }: Readonly<Record<string, unknown>>) => `wet in ${of}`);
    const session = await LanguageModel.create({ tools: [{ ...tool, execute }] });
    expect(await session.prompt("?")).toBe("Wet.");
    expect(asked[0]?.options.tools?.[0]?.function.name).toBe("rain");
    const results = asked[1]?.messages.slice(2).map(({ content }) => content);
    expect(results).toEqual(["wet in Rome", "wet in Bern"]);
  });

  it("that fail end the prompt with what they threw", async () => {
    const { LanguageModel } = engineOf({ calls: [call("1", "Rome")] });
    const execute = () => Promise.reject(new RangeError("no such town"));
    const session = await LanguageModel.create({ tools: [{ ...tool, execute }] });
    await expect(session.prompt("?")).rejects.toThrow(RangeError);
    expect(session.contextUsage).toBe(0);
  });

  it("that are called for ever end it, too", async () => {
    const endless = Array.from({ length: 20 }, () => ({ calls: [call("1", "")] }));
    const { LanguageModel } = engineOf(...endless);
    const session = await LanguageModel.create({ tools: [{ ...tool, execute: () => "" }] });
    expect(await nameOf(session.prompt("?"))).toBe("UnknownError");
  });
});

describe("promptStreaming", () => {
  it("streams pieces as strings", async () => {
    const session = await engineOf("Hello!").LanguageModel.create();
    const pieces: string[] = [];
    for await (const piece of session.promptStreaming("?")) pieces.push(piece);
    expect(pieces).toEqual(["Hel", "lo!"]);
    expect(session.contextUsage).toBe(7);
  });

  it("errors where the prompt is refused", async () => {
    const session = await engineOf().LanguageModel.create();
    const stream = session.promptStreaming([7] as unknown as string);
    await expect(stream.getReader().read()).rejects.toThrow(TypeError);
  });

  it("takes the question back where nobody reads on", async () => {
    const { LanguageModel, asked } = engineOf({ waits: "Hm" }, "2.");
    const session = await LanguageModel.create();
    const reader = session.promptStreaming("A?").getReader();
    expect(await reader.read()).toEqual({ done: false, value: "H" });
    await reader.cancel();
    expect(await session.prompt("B?")).toBe("2.");
    expect(asked[1]?.messages).toEqual([user("B?")]);
  });
});

describe("a signal", () => {
  it("ends a prompt that is answered, and the pair is gone", async () => {
    const { LanguageModel, asked } = engineOf({ waits: "Hm" }, "2.");
    const session = await LanguageModel.create();
    const ending = new AbortController();
    const ended = session.prompt("A?", { signal: ending.signal });
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    ending.abort();
    expect(await nameOf(ended)).toBe("AbortError");
    expect(session.contextUsage).toBe(0);
    await session.prompt("B?");
    expect(asked[1]?.messages).toEqual([user("B?")]);
  });

  it("takes a prompt that waits out of the queue, for its own reason", async () => {
    const { LanguageModel, asked } = engineOf({ waits: "Hm" });
    const session = await LanguageModel.create();
    const first = new AbortController();
    const before = session.prompt("A?", { signal: first.signal });
    const ending = new AbortController();
    const waiting = session.prompt("B?", { signal: ending.signal });
    ending.abort(new RangeError("enough"));
    await expect(waiting).rejects.toThrow("enough");
    first.abort();
    expect(await nameOf(before)).toBe("AbortError");
    expect(asked).toHaveLength(1);
  });

  it("that a session was made with ends it later", async () => {
    const ending = new AbortController();
    const session = await engineOf().LanguageModel.create({ signal: ending.signal });
    ending.abort();
    expect(await nameOf(session.prompt("?"))).toBe("AbortError");
  });
});

describe("destroy", () => {
  it("ends what is asked, and what would be", async () => {
    const { LanguageModel } = engineOf({ waits: "Hm" });
    const session = await LanguageModel.create();
    const running = session.prompt("?");
    const reader = session.promptStreaming("?").getReader();
    session.destroy();
    expect(await nameOf(running)).toBe("InvalidStateError");
    expect(await nameOf(reader.read())).toBe("InvalidStateError");
    for (const call of [session.prompt("?"), session.append("?"), session.clone()]) {
      expect(await nameOf(call)).toBe("InvalidStateError");
    }
    expect(await nameOf(session.measureContextUsage("?"))).toBe("InvalidStateError");
    expect(session.contextUsage).toBe(0);
  });
});

describe("the context", () => {
  it("is measured, also for what it does not hold", async () => {
    const session = await engineOf().LanguageModel.create();
    expect(await session.measureContextUsage("12345")).toBe(5);
    expect(await session.measureInputUsage([user("12"), assistant("3")])).toBe(3);
    expect(await session.measureContextUsage("x".repeat(3 * CONTEXT))).toBe(3 * CONTEXT);
    expect(session.contextUsage).toBe(0);
    const constrained = await session.measureContextUsage("?", { responseConstraint: /x/ });
    expect(constrained).toBeGreaterThan(1);
  });

  it("is added to without an answer", async () => {
    const { LanguageModel, asked } = engineOf();
    const session = await LanguageModel.create();
    await session.append([user("abc"), assistant("de")]);
    expect(session.contextUsage).toBe(5);
    await session.prompt("?");
    expect(asked[0]?.messages).toEqual([user("abc"), assistant("de"), user("?")]);
  });

  it("loses the oldest turns where it is full, but for the initial prompts", async () => {
    const { LanguageModel, asked } = engineOf("1".repeat(20), "2".repeat(20), "3.", "4.");
    const session = await LanguageModel.create({ initialPrompts: [user("i".repeat(10))] });
    const heard: string[] = [];
    session.oncontextoverflow = ({ type }) => heard.push(type);
    session.addEventListener("quotaoverflow", ({ type }) => heard.push(type));
    await session.prompt("A".repeat(10));
    await session.prompt("B".repeat(10));
    expect(heard).toEqual([]);
    expect(session.contextUsage).toBe(70);
    await session.prompt("C".repeat(10));
    expect(heard).toEqual(["contextoverflow", "quotaoverflow"]);
    const said = asked[2]?.messages.map(({ content }) => content?.[0]);
    expect(said).toEqual(["i", "B", "2", "C"]);
    expect(session.contextUsage).toBe(52);
  });

  it("is exceeded by what does not fit it alone, and nothing is lost", async () => {
    const { LanguageModel, asked } = engineOf("1.", "2.");
    const session = await LanguageModel.create();
    await session.prompt("A?");
    const thrown: unknown = await session
      .prompt("x".repeat(2 * CONTEXT))
      .catch((caught: unknown) => caught);
    expect(thrown).toBeInstanceOf(DOMException);
    expect(thrown).toMatchObject({ name: "QuotaExceededError", quota: CONTEXT });
    expect((thrown as { requested: number }).requested).toBeGreaterThanOrEqual(2 * CONTEXT);
    await session.prompt("B?");
    expect(asked[1]?.messages).toHaveLength(3);
  });
});
