/** The host's model in a page: by itself, through the app beside this device's, and without WebGPU. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { barriers } from "./axe.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by } from "./visits.ts";

const MODEL = "demo-q4";
const LONG = { temperature: 0, maxTokens: 400, ignoreEos: true } as const;
const NARROW = { width: 320, height: 640 };

describe("a remote engine", () => {
  let session: Session;
  let page: Page;
  const generate = (options: object, prompt = "Once upon a time") =>
    page.evaluate(([prompt, options]) => library.generate("host", prompt, options), [
      prompt,
      options,
    ] as const);

  beforeAll(async () => {
    session = await openSession("none");
    page = await session.library();
    const facts = await page.evaluate((model) => library.connect("host", model), MODEL);
    expect(facts).toMatchObject({ value: { name: MODEL, context: 1024 } });
  }, WAIT.timeout);
  afterAll(() => session?.close());

  it(
    "loses and doubles nothing where the connection breaks again and again",
    async () => {
      const whole = await generate(LONG);
      if (!("value" in whole)) throw new Error(whole.error.message);
      expect(whole.value).toMatchObject({ finishReason: "length" });
      session.proxy.socketBytes = 600;
      // A connection of its own: what is asked of one that has just ended is not asked again.
      await page.evaluate((model) => library.connect("fragile", model), MODEL);
      const broken = await page.evaluate(
        (options) => library.generate("fragile", "Once upon a time", options),
        { ...LONG, seed: 1 },
      );
      session.proxy.socketBytes = Number.POSITIVE_INFINITY;
      if (!("value" in broken)) throw new Error(broken.error.message);
      expect(session.proxy.broken).toBeGreaterThan(2);
      expect(broken.value.tokenIds).toEqual(whole.value.tokenIds);
      expect(broken.value.text).toBe(whole.value.text);
    },
    WAIT.timeout,
  );

  it("says several things at once, each as alone", async () => {
    const options = { temperature: 0, maxTokens: 8, ignoreEos: true };
    const prompts = ["Once upon a time", "A page is", "The weather"];
    const together = await Promise.all(prompts.map((prompt) => generate(options, prompt)));
    for (const [index, prompt] of prompts.entries()) {
      const alone = await generate(options, prompt);
      if (!("value" in alone)) throw new Error(alone.error.message);
      expect(together[index]).toMatchObject({ value: { tokenIds: alone.value.tokenIds } });
    }
  });

  it("calls tools and follows formats as an engine here does", async () => {
    const answer = await page.evaluate(
      (options) => library.chat("host", [{ role: "user", content: "What is a page?" }], options),
      {
        temperature: 0,
        maxTokens: 40,
        responseFormat: { type: "regex", pattern: "(yes|no), [a-z]{3,8}\\." },
      } as const,
    );
    expect(answer).toMatchObject({
      value: { completion: { text: expect.stringMatching(/^(yes|no), [a-z]{3,8}\.$/) } },
    });
  });

  it.each([
    ["input.sampling", { temperature: -1 }],
    ["unsupported.remote", { toolFormat: "hermes" }],
  ])("refuses with %s", async (code, options) => {
    expect(await generate(options)).toMatchObject({ error: { code } });
  });

  it("is refused for a model that the host does not answer with", async () => {
    const refused = await page.evaluate(() => library.connect("other", "nobody's"));
    expect(refused).toMatchObject({ error: { code: "host.model" } });
  });

  it("says that the host is gone", async () => {
    session.proxy.down = true;
    for (const socket of session.proxy.sockets) socket.destroy();
    expect(await generate({ maxTokens: 4 })).toMatchObject({ error: { code: "host.gone" } });
    session.proxy.down = false;
    expect(await generate({ maxTokens: 4 })).toMatchObject({ value: { finishReason: "length" } });
  });
});

describe("the app", () => {
  const sessions: Session[] = [];
  afterAll(() => Promise.all(sessions.map((session) => session.close())));

  async function visit(adapter: "none" | "swiftshader"): Promise<Page> {
    const session = await openSession(adapter);
    sessions.push(session);
    const page = await session.page();
    await page.goto(session.proxy.url);
    return page;
  }

  async function answered(page: Page, question: string, count: number): Promise<void> {
    await by(page, "prompt").fill(question);
    await by(page, "send").click(WAIT);
    await expect.poll(() => by(page, "assistant-message").count(), WAIT).toBe(count);
    await by(page, "stop").waitFor({ state: "detached", ...WAIT });
  }

  it(
    "chats through the host where there is no WebGPU",
    async () => {
      const page = await visit("none");
      const where = by(page, "where");
      await where.waitFor(WAIT);
      const here = where.getByRole("radio", { name: "This device" });
      expect(await here.isDisabled()).toBe(true);
      expect(await where.getByRole("radio", { name: "The host" }).isChecked()).toBe(true);
      await by(page, "model-picker").selectOption({ index: 0 });
      await answered(page, "Hello", 1);
      expect(await by(page, "assistant-message").first().textContent()).toContain("by the host");
      expect(await barriers(page)).toEqual([]);
      await page.setViewportSize(NARROW);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(width).toBeLessThanOrEqual(NARROW.width);
    },
    WAIT.timeout,
  );

  it(
    "goes on with a conversation elsewhere, and back",
    async () => {
      const page = await visit("swiftshader");
      await page
        .getByRole("button", { name: new RegExp(MODEL) })
        .first()
        .click(WAIT);
      await by(page, "device-status").getByText("Ready on").waitFor(WAIT);
      await answered(page, "Hello", 1);
      await by(page, "where").getByRole("radio", { name: "The host" }).check();
      await by(page, "device-status").getByText("the host").waitFor(WAIT);
      await answered(page, "What is a page?", 2);
      await by(page, "where").getByRole("radio", { name: "This device" }).check();
      await by(page, "device-status").getByText("Ready on").waitFor(WAIT);
      await answered(page, "And a bundle?", 3);
      const answers = await by(page, "assistant-message").allTextContents();
      expect(answers.map((text) => text.includes("by the host"))).toEqual([false, true, false]);
      expect(await by(page, "user-message").count()).toBe(3);
      expect(await barriers(page)).toEqual([]);
      await page.reload();
      await by(page, "conversation").first().click(WAIT);
      await expect.poll(() => by(page, "assistant-message").count(), WAIT).toBe(3);
    },
    WAIT.timeout,
  );
});
