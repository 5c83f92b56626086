/** What a model wrote, as a person sees it, hears it and reaches it by keys. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { barriers } from "./axe.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by, conversation, visited } from "./visits.ts";

const PHONE = { width: 390, height: 780 };
const LONG_WORD = "Donaudampfschifffahrtsgesellschaftskapitänswitwe".repeat(3);

const ANSWER = `<think>
The person wants **everything**.
</think>

# What it has

The root of $x^2 = 2$, and for itself:

$$
x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a} + \\sum_{i=1}^{n} \\frac{1}{i} + ${"a + ".repeat(60)} b
$$

- [x] done
- [ ] to do

1. one
2. two

\`\`\`python
print("hello")  # ${"a long line ".repeat(30)}
\`\`\`

3. three

| Name | ${LONG_WORD} | Right |
|:-----|:------------:|------:|
| unbroken | middle | 1 |

שלום, this is a paragraph from right to left.

${LONG_WORD}
`;

const HOSTILE = `</think>
$\\href{javascript:alert(1)}{x}$ $<img src=x onerror=alert(1)>$

$$\\def\\a{\\a\\a}\\a$$

\`\`\`html
<script>alert(1)</script><img src="/x.png" onerror="alert(1)">
\`\`\`

| <svg onload=alert(1)> |
|---|
| <iframe srcdoc="<script>alert(1)</script>"></iframe> |
`;

const ARGUMENTS = `{"city": "Zürich", "days": [1, 2.50], "note": "<img src=x onerror=alert(1)> ${"long ".repeat(40)}"}`;

/** A conversation in which tools were called, one call cut off. */
function called() {
  const calls = [
    { index: 0, id: "a", name: "weather", arguments: ARGUMENTS, complete: true },
    { index: 1, id: "b", name: LONG_WORD, arguments: '{"x": [1, ', complete: false },
  ];
  const { messages, ...others } = conversation("c4", "Calls", 0, "Let me see.");
  const [question, answer] = messages;
  return { ...others, messages: [question, { ...answer, thought: "hm", calls }] };
}

describe("an answer that was kept", () => {
  let session: Session;
  let page: Page;
  const requested: string[] = [];
  const lazy = () => requested.filter((url) => /\/(?:highlight|math)-/.test(url));

  beforeAll(async () => {
    session = await openSession("none");
    page = await session.page();
    const { origin } = new URL(session.proxy.url);
    await session.browser.context.grantPermissions(["clipboard-read", "clipboard-write"], {
      origin,
    });
    page.on("request", (request) => requested.push(request.url()));
    await page.goto(session.proxy.url);
    await by(page, "prompt").waitFor();
    await visited(page, [
      conversation("c1", "Everything", 3, ANSWER),
      conversation("c2", "Plain", 2, "A page is a block."),
      conversation("c3", "Hostile", 1, HOSTILE),
      called(),
    ]);
  });
  afterAll(() => session?.close());

  it("needs neither colours nor formulas to be shown where it has none", async () => {
    await by(page, "conversation").nth(1).click();
    await page.locator(".markdown", { hasText: "A page is a block." }).waitFor();
    expect(lazy()).toEqual([]);
  });

  it("has what was thought folded away, and out of what is copied", async () => {
    await by(page, "conversation").first().click();
    const thought = by(page, "thought");
    await thought.waitFor();
    expect(await thought.textContent()).toBe("Thought");
    await page.getByRole("button", { name: "Copy", exact: true }).last().click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    expect(copied).toMatch(/^# What it has/);
    await thought.locator("summary").click();
    expect(await thought.locator("strong").textContent()).toBe("everything");
  });

  it("has code in colours, and formulas as MathML", async () => {
    await page.locator(".code .hljs-string", { hasText: '"hello"' }).waitFor();
    await page.locator(".markdown math").nth(1).waitFor();
    const drawn = await page
      .locator(".markdown math")
      .evaluateAll((all) =>
        all.map((math) => [math.namespaceURI, math.getBoundingClientRect().height > 10]),
      );
    const mathml = "http://www.w3.org/1998/Math/MathML";
    expect(drawn).toEqual([
      [mathml, true],
      [mathml, true],
    ]);
    expect(lazy().length).toBeGreaterThanOrEqual(2);
  });

  it("has tasks, lists that go on, and columns that are aligned", async () => {
    expect(await page.getByRole("img", { name: "Done:" }).count()).toBe(1);
    expect(await page.getByRole("img", { name: "To do:" }).count()).toBe(1);
    const starts = await page
      .locator(".markdown ol")
      .evaluateAll((all) => all.map((list) => (list as HTMLOListElement).start));
    expect(starts).toEqual([1, 3]);
    const aligned = await page
      .locator("td")
      .evaluateAll((all) => all.map((cell) => getComputedStyle(cell).textAlign));
    expect(aligned.map((value) => value.replace(/^-\w+-/, ""))).toEqual([
      "left",
      "center",
      "right",
    ]);
  });

  it("has the direction of its letters", async () => {
    const directions = await page
      .locator(".markdown > div > p")
      .evaluateAll((all) => all.map((text) => text.parentElement?.matches(":dir(rtl)")));
    expect(directions).toContain(true);
    expect(directions).toContain(false);
  });

  it("fits a phone: code, tables and formulas are scrolled by keys, and words stay whole", async () => {
    await page.setViewportSize(PHONE);
    for (const name of ["Code in python", "Table", "Formula"]) {
      const scrolled = page.getByRole("group", { name });
      await scrolled.focus();
      await page.keyboard.press("ArrowRight");
      await expect.poll(() => scrolled.evaluate((box) => box.scrollLeft)).toBeGreaterThan(0);
    }
    const unbroken = page.getByRole("cell", { name: "unbroken" });
    expect((await unbroken.boundingBox())?.height).toBeLessThan(50);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(PHONE.width);
    await page.setViewportSize({ width: 1100, height: 720 });
  });

  it("has no barriers", async () => {
    expect(await barriers(page)).toEqual([]);
  });

  it("shows calls of tools, with what they are called with on lines of its own", async () => {
    await by(page, "conversation").nth(3).click();
    const [first, second] = [by(page, "tool-call").first(), by(page, "tool-call").nth(1)];
    await first.waitFor();
    expect(await first.locator("summary").textContent()).toBe("Called weather");
    expect(await second.locator("summary").textContent()).toBe(`Began to call ${LONG_WORD}`);
    const written = await first.locator("pre").textContent();
    expect(written).toMatch(/^\{\n {2}"city": "Zürich",\n {2}"days": \[\n {4}1,\n {4}2\.50\n/);
    expect(JSON.parse(written ?? "")).toEqual(JSON.parse(ARGUMENTS));
    expect(await page.locator(".call img").count()).toBe(0);
  });

  it("folds calls by keys, scrolls what is long, and fits a phone in the dark", async () => {
    await page.setViewportSize(PHONE);
    await page.emulateMedia({ colorScheme: "dark" });
    const group = page.getByRole("group", { name: "What weather is called with" });
    await group.focus();
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => group.evaluate((box) => box.scrollLeft)).toBeGreaterThan(0);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(PHONE.width);
    expect(await barriers(page)).toEqual([]);
    const summary = by(page, "tool-call").first().locator("summary");
    await summary.focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => group.isVisible()).toBe(false);
    await page.emulateMedia({ colorScheme: null });
    await page.setViewportSize({ width: 1100, height: 720 });
  });

  it("means no harm", async () => {
    await by(page, "conversation").nth(2).click();
    await page.locator(".hljs-tag").first().waitFor();
    const found = await page
      .locator(".markdown *")
      .evaluateAll((all) => [
        ...new Set(all.map(({ localName }) => localName)),
        ...all.flatMap((one) =>
          one.getAttributeNames().filter((name) => /^on|src|style/.test(name)),
        ),
      ]);
    expect(found).toEqual(expect.arrayContaining(["code", "td"]));
    const harm = ["script", "img", "svg", "iframe", "onload", "onerror", "src", "srcdoc", "style"];
    expect(found.filter((name) => harm.includes(name))).toEqual([]);
    expect(await page.locator(".markdown [href^=javascript]").count()).toBe(0);
  });

  it("is as it was without a network", async () => {
    await page.evaluate(() => navigator.serviceWorker.ready);
    session.proxy.down = true;
    await session.browser.context.setOffline(true);
    await page.reload();
    await by(page, "conversation").first().click();
    await page.locator(".hljs-string").first().waitFor();
    await page.locator(".markdown math").first().waitFor();
    await session.browser.context.setOffline(false);
    session.proxy.down = false;
  });

  it("complains of nothing but the network it did not have", () => {
    const others = session.complaints.filter((text) => !text.includes("ERR_INTERNET_DISCONNECTED"));
    expect(others).toEqual([]);
  });
});

describe("an answer of a model that thinks", () => {
  let session: Session;
  let page: Page;

  const ask = async (text: string) => {
    await by(page, "prompt").fill(text);
    await by(page, "prompt").press("Enter");
    await by(page, "assistant-message").last().getByTestId("stats").waitFor(WAIT);
    return by(page, "assistant-message").last();
  };

  beforeAll(async () => {
    session = await openSession("lavapipe");
    page = await session.page();
    await page.goto(session.proxy.url);
    await by(page, "model-picker").selectOption("/bundles/thinks-q4/");
    await by(page, "device-status")
      .filter({ hasText: /^Ready on/ })
      .waitFor(WAIT);
    await by(page, "settings").click();
    await page.getByLabel("Longest answer").fill("8");
    await page.getByRole("button", { name: "Done" }).click();
  });
  afterAll(() => session?.close());

  it("begins with its thought where the prompt says so, and with the time it took", async () => {
    const answer = await ask("Hello");
    expect(await answer.getByTestId("thought").textContent()).toMatch(/^Thought for \d/);
    expect(await answer.textContent()).toContain("before the model was done thinking");
    expect(await barriers(page)).toEqual([]);
  });

  it("has no thought where that is switched off, which the settings show", async () => {
    await by(page, "settings").click();
    const thinks = page.getByLabel("Think first");
    expect(await thinks.isChecked()).toBe(true);
    await thinks.uncheck();
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Done" }).click();
    const answer = await ask("Hello again");
    expect(await answer.getByTestId("thought").count()).toBe(0);
    expect((await answer.locator(".markdown").textContent())?.trim()).not.toBe("");
  });

  it("complains of nothing", () => {
    expect(session.complaints).toEqual([]);
  });
});
