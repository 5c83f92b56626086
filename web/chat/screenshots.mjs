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

const ANSWER = `<think>
Velocity is the derivative of position. I show the formula, then code.
</think>

The **derivative** of $x(t) = \\frac{1}{2} g t^2$ is the velocity:

$$
v(t) = \\lim_{h \\to 0} \\frac{x(t + h) - x(t)}{h} = g\\,t
$$

1. Choose a small $h$.
2. Divide the difference by it:

\`\`\`python
def velocity(x, t, h=1e-6):
    """The derivative of x at t."""
    return (x(t + h) - x(t - h)) / (2 * h)
\`\`\`

3. Compare:

| $t$ | exact | computed |
|:----|------:|---------:|
| 1 s | 9.81 m/s | 9.810000 m/s |
| 2 s | 19.62 m/s | 19.619999 m/s |

- [x] formula
- [ ] measurement
`;

const take = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

async function open(browser, size) {
  const page = await browser.context.newPage();
  await page.setViewportSize(size);
  // Nothing may be on its way while a picture is taken.
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.goto(url);
  return page;
}

/** A conversation as an earlier visit kept it: the demo model writes neither formulas nor code. */
async function visited(page, answer) {
  await page.evaluate(async (content) => {
    const opening = indexedDB.open("edgewise-chat", 1);
    await new Promise((resolve, reject) => {
      opening.onsuccess = resolve;
      opening.onerror = reject;
    });
    const writing = opening.result.transaction("conversations", "readwrite");
    const messages = [
      { id: "q", role: "user", content: "What is the velocity of something that falls?" },
      { id: "a", role: "assistant", content, thoughtMs: 3200 },
    ];
    const kept = { id: "c", title: "Falling", updated: 0, system: "", settings: {}, messages };
    writing.objectStore("conversations").put(kept);
    await new Promise((resolve) => {
      writing.oncomplete = resolve;
    });
    opening.result.close();
  }, answer);
  await page.reload();
  await page.getByTestId("conversation").first().click();
  await page.locator(".hljs-keyword").first().waitFor();
  await page.locator("math").first().waitFor();
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
  await page.locator("[placeholder='200']").waitFor(); // what the model says itself
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
  // A host that answers would do so where the page cannot.
  await page.route("**/api/bundles", async (route) => {
    const told = await (await route.fetch()).json();
    await route.fulfill({ json: { ...told, answers: [] } });
  });
  await page.reload();
  await page.getByTestId("error").waitFor();
  await take(page, "no-webgpu");
  await visited(page, ANSWER);
  await page.setViewportSize({ width: 1100, height: 1180 });
  await page.getByTestId("thought").locator("summary").click();
  const answer = page.locator(".message.assistant");
  // Nothing was measured here.
  await answer.locator(".actions").evaluate((line) => line.style.setProperty("display", "none"));
  await answer.screenshot({ path: join(folder, "answer.png") });
  await page.setViewportSize({ width: PHONE.width, height: 1100 });
  await page.emulateMedia({ colorScheme: "dark" });
  await answer.screenshot({ path: join(folder, "answer-phone.png") });
} finally {
  await bare.close();
}
