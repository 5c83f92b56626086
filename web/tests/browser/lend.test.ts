/** Tabs as Python's devices: the app in Chromium lends its GPU, and BrowserEngine asks. */
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { barriers } from "./axe.ts";
import { FLOAT32, isNearTie, readExpected } from "./expected.ts";
import { launch, type RunningBrowser } from "./launch.ts";
import { Lent } from "./lent.ts";
import { WAIT } from "./paths.ts";
import { renderersOf } from "./processes.ts";
import { by } from "./visits.ts";

/** Four times that is a tab's silence after which it is missed: beside other work it takes some. */
const BEAT_S = 2;
/** What the tests wait for without a model to load, in milliseconds. */
const SOON = { timeout: 60_000 };
/** Tokens that take longer than what is done to who answers with them. */
const LONG = 800;
const NARROW = { width: 320, height: 640 };

describe("a tab that lends its GPU", () => {
  let lent: Lent;
  const browsers: RunningBrowser[] = [];

  /** A tab of a browser of its own, which lends. */
  async function opened(): Promise<{ page: Page; browser: RunningBrowser }> {
    const browser = await launch("swiftshader", inject("profiles"));
    browsers.push(browser);
    const page = await browser.context.newPage();
    await page.goto(lent.url);
    return { page, browser };
  }

  beforeAll(async () => {
    lent = await Lent.start(join(inject("bundles"), "demo-q4"), BEAT_S);
  }, WAIT.timeout);
  afterAll(async () => {
    await Promise.all(browsers.map((browser) => browser.close()));
    await lent?.close();
  }, WAIT.timeout);

  it(
    "answers Python as it is asked, side by side, in turn with another, and is missed",
    async () => {
      const { page } = await opened();
      await lent.wait(1);
      await page.getByTestId("lent").getByText("lent to the host").waitFor(WAIT);
      expect(await barriers(page)).toEqual([]);
      await page.setViewportSize(NARROW);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(width).toBeLessThanOrEqual(NARROW.width);

      // What it says to who sits before it, it says to Python.
      const own = await answered(page, "Tell me a story.", 12);
      expect((await lent.chat("Tell me a story.", 12)).text).toBe(own);
      expect(own).not.toBe("");

      const { prompts, programs } = readExpected();
      const of = programs["webgpu-f32"];
      if (!of) throw new Error("nothing is expected of webgpu-f32");
      const some = prompts.slice(0, 2);
      const answers = await Promise.all(some.map((prompt) => lent.generate(prompt, 8)));
      for (const [index, answer] of answers.entries()) {
        const expected = of.tokens[index]?.slice(0, 8) ?? [];
        expect(answer.tokens).toHaveLength(8);
        const odd = expected.findIndex((token, at) => token !== answer.tokens?.[at]);
        if (odd >= 0) expect(isNearTie(of, index, odd, FLOAT32)).toBe(true);
      }
      await page.getByTestId("lent").getByText("0 answers running, 3 so far").waitFor(SOON);

      const second = await opened();
      await lent.wait(2);
      const running = async () => (await lent.tabs()).tabs?.map(([, answers]) => answers);
      // Pages that stand still end none of these before all are asked.
      for (const browser of browsers) signal("SIGSTOP", browser);
      const four = [0, 1, 2, 3].map(() => lent.generate("Once upon a time", 4));
      try {
        await expect.poll(running, SOON).toEqual([2, 2]);
      } finally {
        for (const browser of browsers) signal("SIGCONT", browser);
      }
      await Promise.all(four);
      const { tabs = [] } = await lent.tabs();
      expect(tabs.map(([, left, served]) => [left, served])).toEqual([
        [0, 5],
        [0, 2],
      ]);

      // The tab that is closed ends what it had begun; the other one goes on.
      const begun = await lent.begun(LONG);
      const working = await busy(lent, page, second.page);
      await working.close();
      expect(await begun.answer).toEqual({ code: "tab.gone" });
      expect((await lent.tabs()).tabs).toHaveLength(1);
      const left = working === page ? second.page : page;
      const leftBrowser = left === page ? browsers[0] : browsers[1];

      // A tab whose processes stand still, which its browser's network process does not tell.
      const stopped = await lent.begun(LONG);
      signal("SIGSTOP", leftBrowser);
      try {
        expect(await stopped.answer).toEqual({ code: "tab.silent" });
        expect((await lent.tabs()).tabs).toEqual([]);
      } finally {
        signal("SIGCONT", leftBrowser);
      }
      // Once it goes on it offers itself again.
      await lent.wait(1);
      expect((await lent.generate("Once upon a time", 4)).tokens).toHaveLength(4);

      await left.getByRole("button", { name: "Stop lending" }).click();
      await expect.poll(async () => (await lent.tabs()).tabs, SOON).toEqual([]);
      expect(await lent.generate("Once", 4)).toEqual({ code: "tab.none" });
      await left.getByRole("button", { name: "Settings" }).click();
      await left.getByTestId("lend").check();
      expect(await barriers(left)).toEqual([]);
      await lent.wait(1);
    },
    WAIT.timeout,
  );
});

/** What the app in a page answers, greedily, as it keeps it. */
async function answered(page: Page, question: string, maxTokens: number): Promise<string> {
  await by(page, "settings").click();
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Longest answer").fill(String(maxTokens));
  await page.getByRole("button", { name: "Done" }).click();
  await by(page, "prompt").fill(question);
  await by(page, "prompt").press("Enter");
  await expect.poll(async () => (await lastKept(page))?.stats, WAIT).toBeDefined();
  return (await lastKept(page))?.content ?? "";
}

interface Kept {
  readonly content: string;
  /** Once it has ended. */
  readonly stats?: object;
}

/** The last message that the app in a page keeps. */
function lastKept(page: Page): Promise<Kept | undefined> {
  return page.evaluate(async () => {
    const opening = indexedDB.open("edgewise-chat");
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });
    const reading = database.transaction("conversations").objectStore("conversations").getAll();
    await new Promise((resolve) => {
      reading.onsuccess = resolve;
    });
    database.close();
    return reading.result.at(-1)?.messages.at(-1);
  });
}

/** Which of the pages, in the order in which they began to lend, answers now. */
async function busy(lent: Lent, ...pages: readonly Page[]): Promise<Page> {
  const { tabs = [] } = await lent.tabs();
  const page = pages[tabs.findIndex(([, running]) => running === 1)];
  if (!page) throw new Error(`none of the tabs answers: ${JSON.stringify(tabs)}`);
  return page;
}

/** To the processes of a browser's pages. */
function signal(name: "SIGSTOP" | "SIGCONT", browser: RunningBrowser | undefined): void {
  for (const pid of browser ? renderersOf(browser) : []) process.kill(pid, name);
}
