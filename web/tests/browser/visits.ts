/** Pages of the app that somebody was at before. */
import type { Locator, Page } from "playwright-core";

export const by = (page: Page, name: string): Locator => page.getByTestId(name);

/** What has the focus, by its label or else its text. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement;
    return element?.getAttribute("aria-label") ?? element?.textContent?.trim() ?? "";
  });
}

/** Its host only offers bundles: one that answers would do so where the page itself cannot. */
export async function offeredOnly(page: Page): Promise<void> {
  await page.route("**/api/bundles", async (route) => {
    const told = await (await route.fetch()).json();
    await route.fulfill({ json: { ...told, answers: [] } });
  });
}

/** A conversation as the first version of the app kept it: a list of messages. */
export function conversation(id: string, title: string, updated: number, answer: string) {
  const messages = [
    { id: `${id}-q`, role: "user", content: "A question" },
    { id: `${id}-a`, role: "assistant", content: answer },
  ];
  return { id, title, updated, system: "", settings: {}, messages };
}

/** Conversations kept by an earlier visit. */
export async function visited(page: Page, conversations: readonly object[]): Promise<void> {
  await page.evaluate(async (kept) => {
    const opening = indexedDB.open("edgewise-chat", 1);
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });
    const writing = database.transaction("conversations", "readwrite");
    for (const one of kept) writing.objectStore("conversations").put(one);
    await new Promise((resolve) => {
      writing.oncomplete = resolve;
    });
    database.close();
  }, conversations);
  await page.reload();
  await by(page, "conversation").first().waitFor();
}

/**
 * Ends the answer of this number once it has a word, by a click on Stop or by a key beside it. Runs in the
 * browser, from its text: a busy machine's clicks take as long as a whole answer.
 */
export function endAtFirstWord(how: { index: number; by: "Stop" | "Escape" }): Promise<void> {
  return new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      const answer = document.querySelectorAll("[data-testid=assistant-message]")[how.index];
      const stop = document.querySelector<HTMLElement>("[data-testid=stop]");
      if (!stop || !answer?.querySelector(".markdown")?.textContent) return;
      observer.disconnect();
      const theme = document.querySelector<HTMLElement>("[data-testid=theme]");
      if (how.by === "Stop") stop.click();
      else theme?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      resolve();
    });
    observer.observe(document.body, { childList: true, subtree: true, characterData: true });
  });
}
