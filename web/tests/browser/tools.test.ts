/** What is asked of a chat, and what comes of it, through the page, its worker and the demo model. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answerMessage, toolResult } from "../../client/messages.ts";
import type { ChatOptions, Message } from "../../client/types.ts";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

const MESSAGES: readonly Message[] = [{ role: "user", content: "What is a page?" }];
const ADD = { type: "function", function: { name: "add" } } as const;

describe("a chat", () => {
  let session: Session;
  let page: Page;
  const chat = (options: ChatOptions, messages: readonly Message[] = MESSAGES) =>
    page.evaluate(([messages, options]) => library.chat("demo", messages, options), [
      messages,
      { temperature: 0, maxTokens: 12, ...options },
    ] as const);

  beforeAll(async () => {
    session = await openSession("swiftshader");
    page = await session.library();
    const options = { program: "webgpu-f32-serial" };
    const loaded = await page.evaluate(
      (options) => library.load("demo", "/bundles/demo-q4/", options),
      options,
    );
    expect(loaded).toMatchObject({ value: { program: options.program } });
  }, WAIT.timeout);
  afterAll(() => session?.close());

  it("without calls is text, in deltas as in the completion", async () => {
    const answer = await chat({ tools: [ADD], toolFormat: "hermes" });
    if (!("value" in answer)) throw new Error(answer.error.message);
    const { completion, deltas } = answer.value;
    expect(completion).toMatchObject({ reasoning: "", toolCalls: [] });
    expect(deltas.map((delta) => (delta.kind === "content" ? delta.text : "?")).join("")).toBe(
      completion.text,
    );
    expect(completion.text).not.toBe("");
  });

  it.each([
    [{ type: "regex", pattern: "(yes|no), [a-z]{3,8}\\." }, /^(yes|no), [a-z]{3,8}\.$/],
    [{ type: "grammar", grammar: 'root ::= "<" [0-9]{2} ">"' }, /^<[0-9]{2}>$/],
  ] as const)("follows %j", async (responseFormat, expected) => {
    const answer = await chat({ responseFormat, maxTokens: 40 });
    if (!("value" in answer)) throw new Error(answer.error.message);
    const { text, parsed, finishReason } = answer.value.completion;
    expect(text).toMatch(expected);
    expect([parsed, finishReason]).toEqual([text, "stop"]);
  });

  it("is JSON of a schema", async () => {
    const schema = {
      type: "object",
      properties: { page: { enum: ["block", "sheet"] }, tokens: { type: "integer", minimum: 1 } },
      required: ["page", "tokens"],
      additionalProperties: false,
    };
    const responseFormat = { type: "json_schema", json_schema: { schema } } as const;
    const answer = await chat({ responseFormat, maxTokens: 60 });
    expect(answer).toMatchObject({
      value: {
        completion: {
          finishReason: "stop",
          parsed: { page: expect.stringMatching(/block|sheet/) },
        },
      },
    });
  });

  const parameters = {
    type: "object",
    properties: { x: { type: "integer", minimum: 0, maximum: 99 }, unit: { enum: ["m", "km"] } },
    required: ["x", "unit"],
    additionalProperties: false,
  };
  const measure = { type: "function", function: { name: "measure", parameters } } as const;
  const asked = { tools: [measure], toolFormat: "hermes", toolChoice: "required" } as const;
  const completed = async (given: ChatOptions, messages = MESSAGES) => {
    const answer = await chat({ maxTokens: 120, ...given }, messages);
    if (!("value" in answer)) throw new Error(answer.error.message);
    return answer.value;
  };

  it.each([
    ["one tool", { maxTokens: 120 }, 1],
    ["tools side by side", { minTokens: 60, maxTokens: 200 }, 2],
  ])("calls %s, and goes on with what they give", async (_, options, least) => {
    const { completion, deltas } = await completed({ ...asked, ...options });
    expect(completion.finishReason).toBe("tool_calls");
    expect(completion.toolCalls.length).toBeGreaterThanOrEqual(least);
    expect(completion.written).toContain("<tool_call>");
    expect(completion.text).toBe("");
    for (const [index, call] of completion.toolCalls.entries()) {
      const { name, text, arguments: given } = call;
      expect([name, JSON.parse(text)]).toEqual(["measure", given]);
      expect(given).toEqual({ x: expect.any(Number), unit: expect.stringMatching(/^k?m$/) });
      const pieces = deltas.filter((one) => one.kind === "arguments" && one.index === index);
      expect(pieces.map((one) => (one.kind === "arguments" ? one.text : "")).join("")).toBe(text);
    }
    const results = completion.toolCalls.map((call) => toolResult(call, { length: 7 }));
    const messages = [...MESSAGES, answerMessage(completion), ...results];
    const next = await completed({ tools: [measure], toolChoice: "none", maxTokens: 8 }, messages);
    expect(next.completion.toolCalls).toEqual([]);
    expect(next.completion.usage.promptTokens).toBeGreaterThan(completion.usage.promptTokens);
  });

  it("closes a thought after so many tokens", async () => {
    const loaded = await page.evaluate(() => library.load("thinks", "/bundles/thinks-q4/", {}));
    expect(loaded).toMatchObject({ value: { thinking: { opened: { on: true } } } });
    const answer = await page.evaluate(
      (messages) => library.chat("thinks", messages, { maxTokens: 40, reasoning: 5, seed: 1 }),
      MESSAGES,
    );
    if (!("value" in answer)) throw new Error(answer.error.message);
    const { reasoning, thoughtTokens, tokenIds, written } = answer.value.completion;
    expect(thoughtTokens).toBeGreaterThan(0);
    expect(thoughtTokens).toBeLessThan(tokenIds.length);
    expect(written).toContain("\n</think>\n\n");
    expect(written.trimStart().startsWith(reasoning)).toBe(true);
    await page.evaluate(() => library.close("thinks"));
  });

  it.each([
    ["input.tool_choice", { toolChoice: { type: "function" } as unknown as "auto" }],
    ["input.tools", { tools: [{ ...ADD, function: { name: "a b" } }] }],
    ["unsupported.reasoning", { reasoning: "on" }],
    ["unsupported.calls", { toolFormat: "nobody's" }],
  ] as const)("that asks for what is not there fails with %s", async (code, options) => {
    expect(await chat(options)).toMatchObject({ error: { code } });
  });
});
