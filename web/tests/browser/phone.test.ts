/** The app on a phone: narrow, touched, without a model at first. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { barriers } from "./axe.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by } from "./visits.ts";

const WIDTHS = [320, 360, 390];
/** Pixels that a thumb needs. */
const THUMB = 44;

/** What does not fit the width of the page, by its element: what scrolls by itself may be wider. */
function tooWide(): string[] {
  const width = document.documentElement.clientWidth;
  const inside = [...document.querySelectorAll("body *")].filter((element) => {
    const { left, right, width: own } = element.getBoundingClientRect();
    const shown = getComputedStyle(element).visibility === "visible" && own > 1;
    return shown && (left < -1 || right > width + 1) && !element.closest("pre, .scroll, .skip");
  });
  return inside.map(({ outerHTML }) => outerHTML.slice(0, 120));
}

/** Where the controls are that are not wholly on the screen, or too small for a thumb. */
function outOfReach([thumb, controls]: readonly [number, readonly string[]]): string[] {
  return controls.flatMap((selector) => {
    const box = document.querySelector(selector)?.getBoundingClientRect();
    if (!box) return [`${selector} is missing`];
    const { left, top, right, bottom, width, height } = box;
    const seen = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    const large = Math.min(width, height) >= thumb - 0.5;
    return seen && large ? [] : [`${selector} is ${width} by ${height} at ${left}, ${top}`];
  });
}

const MAIN = [".menu", "[data-testid=settings]", "[data-testid=attach]", "[data-testid=send]"];

async function narrow(page: Page, controls: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 740 });
    const wrong = [
      ...(await page.evaluate(tooWide)),
      ...(await page.evaluate(outOfReach, [THUMB, controls] as const)),
    ];
    found.push(...wrong.map((what) => `${width}: ${what}`));
  }
  return found;
}

describe("the app on a phone", () => {
  let session: Session;
  let page: Page;

  beforeAll(async () => {
    session = await openSession("lavapipe");
    page = await session.page();
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Emulation.setTouchEmulationEnabled", { enabled: true });
    await page.emulateMedia({ reducedMotion: "reduce" });
    await page.setViewportSize({ width: 360, height: 740 });
    await page.goto(session.proxy.url);
    await by(page, "first-visit").waitFor(WAIT);
  });
  afterAll(() => session?.close());

  it("says at the first visit what is downloaded, that it stays, and what is kept", async () => {
    const said = (await by(page, "first-visit").textContent()) ?? "";
    expect(said).toMatch(/downloaded once, [\d.]+ [KM]B/);
    expect(said).toContain("works without a network");
    expect(said).toContain("Conversations, files that you attach");
    expect(said).toContain("none of it is sent anywhere");
    const bytes = (await page.locator(".offer .tag").first().textContent()) ?? "";
    expect(bytes).toMatch(/[\d.]+ [KM]B to download/);
  });

  it("fits, and its controls are reached by a thumb, before a model is loaded", async () => {
    expect(await page.evaluate(() => matchMedia("(pointer: coarse)").matches)).toBe(true);
    expect(await narrow(page, MAIN)).toEqual([]);
    expect(await barriers(page)).toEqual([]);
  });

  it("fits while something is asked with a file, and while it is answered", async () => {
    await page.locator(".offer", { hasText: "demo-q4" }).click();
    await page.locator(".hello").waitFor(WAIT);
    expect(await by(page, "first-visit").count()).toBe(0);
    const name = `${"a-long-name-".repeat(8)}.txt`;
    const buffer = Buffer.from("word ".repeat(20));
    await by(page, "files").setInputFiles({ name, mimeType: "text/plain", buffer });
    await by(page, "measured").filter({ hasText: "tokens" }).waitFor(WAIT);
    expect(await narrow(page, [...MAIN, "[data-testid=file] button"])).toEqual([]);
    await by(page, "send").click();
    await by(page, "stats").waitFor(WAIT);
    await by(page, "message-file").locator("summary").click();
    expect(await narrow(page, [...MAIN, "[data-testid=regenerate]"])).toEqual([]);
  });

  it("fits with its conversations open, and searched", async () => {
    await page.locator(".menu").click();
    await by(page, "search").fill("word");
    await by(page, "hit").waitFor();
    const controls = ["[data-testid=new-conversation]", "[data-testid=search]", ".hit"];
    expect(await narrow(page, controls)).toEqual([]);
    await by(page, "hit").click();
    await by(page, "hit").waitFor({ state: "hidden" });
  });

  it("shows in its settings what the model takes: memory, pages, and what was found again", async () => {
    await by(page, "settings").click();
    const facts = by(page, "engine-stats");
    await facts.waitFor(WAIT);
    expect(await facts.textContent()).toMatch(
      /Memory of the GPU now[\d.]+ MB.*Pages\d+ of \d+ hold text.*Found again\d+ % of \d+ tokens/,
    );
    expect(await narrow(page, [])).toEqual([]);
    await page.keyboard.press("Escape");
  });

  it("leaves the message above an on-screen keyboard that covers the page", async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    const bottom = () =>
      page.evaluate(() => document.querySelector(".composer")?.getBoundingClientRect().bottom);
    await page.evaluate(() => {
      if (!visualViewport) return;
      Object.defineProperty(visualViewport, "height", { configurable: true, get: () => 400 });
      visualViewport.dispatchEvent(new Event("resize"));
    });
    expect(await bottom()).toBeLessThanOrEqual(400);
    await page.evaluate(() => {
      if (!visualViewport) return;
      Reflect.deleteProperty(visualViewport, "height");
      visualViewport.dispatchEvent(new Event("resize"));
    });
    expect(await bottom()).toBeGreaterThan(600);
  });

  it("complains of nothing", () => {
    expect(session.complaints).toEqual([]);
  });
});
