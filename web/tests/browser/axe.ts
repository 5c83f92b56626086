/** What keeps people from using a page: what axe finds, and what does not fit a small phone. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** How the page is looked at: contrasts differ by theme, layout by width. */
const LOOKS = [
  { colorScheme: "light", size: { width: 1100, height: 720 } },
  { colorScheme: "dark", size: { width: 320, height: 640 } },
] as const;

/**
 * The rules of axe that a page breaks as it is now, with where it does, in the light theme and in the
 * dark one on a small phone; a page that scrolls sideways there breaks `narrow`.
 */
export async function barriers(page: Page): Promise<readonly string[]> {
  const before = page.viewportSize();
  const found: string[] = [];
  // As an expression: the page's policy lets no script in.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(SOURCE);
  for (const { colorScheme, size } of LOOKS) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction(
      (theme) => document.documentElement.dataset.theme === theme,
      colorScheme,
    );
    const { violations } = await page.evaluate(run);
    for (const { id, nodes } of violations) {
      found.push(...nodes.map(({ target, html }) => `${colorScheme} ${id}: ${target} ${html}`));
    }
    if (await page.evaluate(scrollsSideways)) found.push(`${colorScheme} narrow`);
  }
  await page.emulateMedia({ colorScheme: null });
  if (before) await page.setViewportSize(before);
  return found;
}

// The functions below run in the browser, from their text: they may use nothing of this file.

function run(): Promise<AxeResults> {
  const { axe } = globalThis as unknown as { axe: { run(): Promise<AxeResults> } };
  return axe.run();
}

/** Of the page, or of what scrolls up and down in it. */
function scrollsSideways(): boolean {
  const scrolling = [document.documentElement, ...document.querySelectorAll("dialog, .log, nav")];
  return scrolling.some(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
}
