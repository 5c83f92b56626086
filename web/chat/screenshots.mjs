/**
 * Takes the pictures of the app for the docs.
 *
 *   node chat/screenshots.mjs URL [FOLDER]     (from web/, while `edgewise serve` runs at URL)
 *
 * The browser is the tests', on a software adapter.
 */
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { runnerImport } from "vite";

const [url, folder = "../docs/images"] = process.argv.slice(2);
if (!url) throw new Error("usage: node chat/screenshots.mjs URL [FOLDER]");
const LAUNCH = resolve(import.meta.dirname, "../tests/browser/launch.ts");
const { launch } = (await runnerImport(LAUNCH, { configFile: false, logLevel: "error" })).module;
mkdirSync(folder, { recursive: true });

const QUESTIONS = ["Hello! Who are you?", "What is the capital of France?"];
const STORY = "Tell me a story about a small robot.";
const PHONE = { width: 390, height: 780 };
const DESK = { width: 1100, height: 720 };

const take = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

async function open(browser, size) {
  const page = await browser.context.newPage();
  await page.setViewportSize(size);
  // Nothing may be on its way while a picture is taken.
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.goto(url);
  return page;
}

async function ask(page, text) {
  const answers = await page.getByTestId("stats").count();
  await page.getByTestId("prompt").fill(text);
  await page.getByTestId("send").click();
  await page.getByTestId("stats").nth(answers).waitFor({ timeout: 120_000 });
}

const browser = await launch("swiftshader");
try {
  const page = await open(browser, DESK);
  await page.locator(".offer").first().click();
  await page.getByTestId("load-progress").locator(".detail", { hasText: " of " }).waitFor();
  await take(page, "loading");
  await page.locator(".hello").waitFor({ timeout: 180_000 });
  for (const question of QUESTIONS) await ask(page, question);
  await take(page, "light");
  await page.getByTestId("theme").click();
  await page.getByTestId("prompt").focus();
  await take(page, "dark");
  await page.setViewportSize(PHONE);
  await take(page, "phone");
  await page.setViewportSize(DESK);
  await page.getByTestId("settings").click();
  await take(page, "settings");
  await page.close();

  const small = await open(browser, DESK);
  await small.locator(".hello").waitFor({ timeout: 180_000 });
  await small.getByTestId("settings").click();
  await small.getByTestId("load-options").locator("summary").click();
  await small.getByTestId("context-picker").selectOption("512");
  await small.locator("[data-testid=program-picker] option").nth(1).waitFor({ state: "attached" });
  await small.getByTestId("load-again").scrollIntoViewIfNeeded();
  await take(small, "model");
  await small.getByTestId("load-again").click();
  await small.getByTestId("load-progress").waitFor();
  await small.locator(".hello").waitFor({ timeout: 180_000 });
  while (!(await small.getByTestId("begins").isVisible())) await ask(small, STORY);
  await small.getByTestId("regenerate").click();
  await small.getByTestId("versions").waitFor({ timeout: 120_000 });
  await small.getByTestId("begins").scrollIntoViewIfNeeded();
  await take(small, "full");
  await small.close();

  const broken = await open(browser, DESK);
  await broken.route("**/bundle.json", (route) => route.fulfill({ status: 404, body: "" }));
  await broken.reload();
  await broken.getByTestId("error").waitFor({ timeout: 60_000 });
  await take(broken, "error");
} finally {
  await browser.close();
}

const bare = await launch("none");
try {
  const page = await open(bare, DESK);
  await page.getByTestId("error").waitFor();
  await take(page, "no-webgpu");
} finally {
  await bare.close();
}
