/** The chat app as a person uses it, with short greedy answers, held to what it ought to say and to keep. */
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { Message } from "../../client/types.ts";
import { expectSound, keptFiles } from "./kept-files.ts";
import { ModelOfChat, type Said, type Talked } from "./model-of-chat.ts";
import { PAGE_TOKENS, type PageKeys, pageKeysOf } from "./page-keys.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";
import { by } from "./visits.ts";
import type { Patch } from "./worker-patch.ts";

const BUNDLE = "demo-q4";
/** For what has to come about in a tab; the test's own limit would not say what did not. */
const WAIT = { timeout: 60_000 };
/** Tokens of an answer at most, where no test says. */
const SHORT = 12;

/** An answer, and what is computed for it. */
interface Expected {
  readonly text: string;
  readonly keys: readonly string[];
}

/** What the model answers where nothing is kept, asked once for each conversation. */
export class Reference {
  private readonly known = new Map<string, Expected>();
  private page: Page | null = null;
  private names: PageKeys | null = null;
  /** In hex, of all pages that somebody can have asked for. */
  readonly keys = new Set<string>();
  producers: ReadonlySet<string> = new Set();
  readonly maxTokens: number;

  constructor(maxTokens = SHORT) {
    this.maxTokens = maxTokens;
  }

  /** @param session of the app: the program chosen there is the one that is asked here. */
  async of(session: Session, messages: readonly Message[]): Promise<Expected> {
    const name = JSON.stringify(messages);
    const before = this.known.get(name);
    if (before) return before;
    const { names, page } = await this.opened(session);
    const found = await page.evaluate(
      ([messages, maxTokens]) =>
        library.chat("reference", messages, { contextPolicy: "drop", temperature: 0, maxTokens }),
      [messages, this.maxTokens] as const,
    );
    if ("error" in found) throw new Error(found.error.message);
    const { text, tokenIds, usage } = found.value.completion;
    const prompt = names.prompt(messages);
    expect(prompt.length).toBe(usage.promptTokens);
    const keys = await names.keys([...prompt, ...tokenIds]);
    for (const key of keys) this.keys.add(key);
    // The last token was drawn, and nothing was computed of it.
    const full = Math.floor((prompt.length + tokenIds.length - 1) / PAGE_TOKENS);
    const expected = {
      text,
      keys: await names.keys([...prompt, ...tokenIds].slice(0, full * PAGE_TOKENS)),
    };
    this.known.set(name, expected);
    return expected;
  }

  /** The browser has ended. */
  lost(): void {
    this.page = null;
  }

  private async opened(session: Session): Promise<{ names: PageKeys; page: Page }> {
    this.names ??= await pageKeysOf(BUNDLE);
    if (this.page) return { names: this.names, page: this.page };
    // A session beside it: what the app complains of is looked at.
    const beside = await openSession(session.browser, session.proxy);
    this.page = await beside.page(); // not patched, so that it does not answer for the app's worker
    await this.page.goto(`${session.proxy.url}/test/library.html`);
    await this.page.waitForFunction(() => "library" in globalThis);
    const loaded = await this.page.evaluate(
      (url) => library.load("reference", url, { keepPages: false, prefixPacks: false }),
      `/bundles/${BUNDLE}/`,
    );
    if ("error" in loaded) throw new Error(loaded.error.message);
    this.producers = await this.names.producers(loaded.value.adapter.key);
    return { names: this.names, page: this.page };
  }
}

export interface TalkingOptions {
  /** Bytes of pages that may be kept. */
  readonly limit: number;
  readonly patch?: Patch;
}

/** A tab of the app, and what ought to be in it. */
export class Talking {
  readonly model = new ModelOfChat();
  session: Session;
  page: Page;
  private readonly reference: Reference;
  private readonly options: TalkingOptions;
  /** Keys of pages in the tab's memory, which are not saved once more. */
  private resident = new Set<string>();
  /** The last page of those to be saved; null where nobody knows of one. */
  private pending: string | null = null;

  private constructor(session: Session, page: Page, reference: Reference, options: TalkingOptions) {
    this.session = session;
    this.page = page;
    this.reference = reference;
    this.options = options;
  }

  /** A first visit, with the model loaded. */
  static async begin(
    session: Session,
    options: TalkingOptions,
    reference = new Reference(),
  ): Promise<Talking> {
    const page = await newPage(session, options);
    const talking = new Talking(session, page, reference, options);
    await talking.choose();
    await talking.ready();
    return talking;
  }

  async ask(question: string): Promise<void> {
    const { text, keys } = await this.answerTo(this.model.asking(question));
    if (!this.model.shown) await this.begin();
    await this.send(question);
    this.model.ask(question, text);
    await this.answered(keys);
  }

  /**
   * Ask in a new conversation, and have the browser killed as soon as something is so.
   *
   * @param when given the whole answer.
   * @returns what there may be of it afterwards: nothing, the question, and the answer as well.
   */
  async cutOff(question: string, when: (answer: Expected) => Promise<void>) {
    const answer = await this.answerTo([{ role: "user", content: question }]);
    await this.begin();
    await this.send(question);
    await when(answer);
    const asked: Said = { role: "user", content: question, parent: -1 };
    const answered: Said = { role: "assistant", content: answer.text, parent: 0 };
    const old = this.model.all;
    const of = (...messages: Said[]): Talked[] => [
      { title: question, messages, leaf: messages.length - 1 },
      ...old,
    ];
    return { old, asked: of(asked), answered: of(asked, answered) };
  }

  /** Answer the last question of the conversation that is shown once more. */
  async answerAgain(): Promise<void> {
    const asked = this.model.said.map(({ role, content }) => ({ role, content }));
    const { text, keys } = await this.answerTo(asked);
    await by(this.page, "regenerate").last().click();
    this.model.answer(text);
    await this.answered(keys);
  }

  /** What is kept of conversations, as `ModelOfChat` has them; of answers that are not ended "unfinished". */
  conversations(): Promise<unknown> {
    return this.page.evaluate(readConversations);
  }

  /** Ask the question of this number in other words. */
  async edit(number: number, question: string): Promise<void> {
    const before = this.model.said.slice(0, 2 * number);
    const asked = [...before, { role: "user" as const, content: question }];
    const { text, keys } = await this.answerTo(asked);
    await by(this.page, "edit").nth(number).click();
    await this.page.getByLabel("Edit your message").fill(question);
    await this.page.getByRole("button", { name: "Send again" }).click();
    this.model.edit(number, question, text);
    await this.answered(keys);
  }

  /** A new conversation, with short and greedy answers. */
  async begin(): Promise<void> {
    this.model.shown = null;
    await by(this.page, "new-conversation").click();
    await by(this.page, "settings").click();
    await this.page.getByLabel("Temperature").fill("0");
    await this.page.getByLabel("Longest answer").fill(String(this.reference.maxTokens));
    await this.done();
  }

  async pick(at: number): Promise<void> {
    await by(this.page, "conversation").nth(at).click();
    this.model.shown = this.model.all[at] ?? null;
  }

  async remove(at: number): Promise<void> {
    const row = this.page.getByRole("listitem").filter({ has: by(this.page, "conversation") });
    await row.nth(at).hover();
    await row.nth(at).getByRole("button", { name: "Delete" }).click();
    this.model.remove(at);
  }

  /** Forget all pages. */
  async clear(): Promise<void> {
    await by(this.page, "settings").click();
    const forget = by(this.page, "forget-pages");
    await forget.waitFor(WAIT);
    const names = async () => (await keptFiles(this.page)).files.map(({ name }) => name);
    const before = new Set(await names());
    if (await forget.isEnabled()) await forget.click();
    else expect([...before]).toEqual([]);
    const left = async () => (await names()).filter((name) => before.has(name));
    await expect.poll(left, WAIT).toEqual([]);
    await this.done();
    this.pending = null;
    this.resident = new Set();
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.opened();
  }

  /** Close the tab, and open another. */
  async reopen(): Promise<void> {
    await this.page.close();
    await this.open();
  }

  /** Go on in another browser, which has the same profile. */
  async move(session: Session): Promise<void> {
    this.session = session;
    this.reference.lost();
    this.page = await newPage(session, this.options);
    // What a page notes last is not on the disk for a while: which model it was, or that it is loaded.
    const known = await this.page.evaluate(() => localStorage.getItem("edgewise.model"));
    if (known === null) await this.choose();
    const interrupted = by(this.page, "interrupted");
    await this.status().or(interrupted).first().waitFor(WAIT);
    if (await interrupted.isVisible()) {
      await this.page.getByRole("button", { name: "Load as before" }).click();
    }
    await this.opened();
  }

  /** Conversations are those that ought to be there, and are shown so. */
  async expectConversations(): Promise<void> {
    const { all, said } = this.model;
    await expect.poll(() => this.conversations(), WAIT).toEqual(all);
    const texts = (name: string) => by(this.page, name).allTextContents();
    await expect.poll(() => texts("conversation"), WAIT).toEqual(all.map(({ title }) => title));
    const asked = () => by(this.page, "user-message").locator(".text").allTextContents();
    const questions = said.filter(({ role }) => role === "user").map(({ content }) => content);
    await expect.poll(asked, WAIT).toEqual(questions);
  }

  /** What is kept of pages is sound now. */
  async expectSoundPages(): Promise<void> {
    expectSound(await keptFiles(this.page), { ...this.reference, limit: this.options.limit });
  }

  /**
   * Wait until the pages of what was answered last are kept; nothing is unfinished then.
   *
   * @param failed whether saving has failed, and nobody knows what will be kept.
   */
  async settled(failed = async () => false): Promise<void> {
    const { pending } = this;
    if (pending === null) return;
    const settled = { kept: true, unfinished: [] };
    const look = async () => {
      const { files, unfinished } = await keptFiles(this.page);
      const kept = files.some(({ key }) => key === pending);
      return (await failed()) ? settled : { kept, unfinished };
    };
    await expect.poll(look, WAIT).toEqual(settled);
    this.pending = null;
  }

  private async answerTo(messages: readonly Message[]): Promise<Expected> {
    const expected = await this.reference.of(this.session, messages);
    await this.page.bringToFront(); // a page that is not seen is drawn once a second
    return expected;
  }

  private async answered(keys: readonly string[]): Promise<void> {
    await this.expectConversations();
    const fresh = keys.filter((key) => !this.resident.has(key));
    this.pending = fresh.at(-1) ?? this.pending;
    for (const key of keys) this.resident.add(key);
  }

  private async send(question: string): Promise<void> {
    await by(this.page, "prompt").fill(question);
    await by(this.page, "prompt").press("Enter");
  }

  private async done(): Promise<void> {
    await this.page.getByRole("button", { name: "Done" }).click();
  }

  private async open(): Promise<void> {
    this.page = await newPage(this.session, this.options);
    await this.opened();
  }

  private async opened(): Promise<void> {
    this.resident = new Set();
    this.pending = null;
    this.model.shown = null;
    await this.ready();
  }

  private async choose(): Promise<void> {
    await by(this.page, "model-picker").selectOption(`/bundles/${BUNDLE}/`);
  }

  /** What says that the model is there. */
  private status(): Locator {
    return by(this.page, "device-status").filter({ hasText: /^Ready on/ });
  }

  private async ready(): Promise<void> {
    await this.status().or(by(this.page, "error")).first().waitFor(WAIT);
    expect(await by(this.page, "error").allTextContents()).toEqual([]);
  }
}

/** A tab of the app, where so many bytes of pages may be kept. */
async function newPage(session: Session, { limit, patch }: TalkingOptions): Promise<Page> {
  const page = await session.page(patch);
  await page.addInitScript(
    (limit) => localStorage.setItem("edgewise.keepPages", String(limit)),
    limit,
  );
  await page.goto(session.proxy.url);
  return page;
}

/** Runs in the browser, from its text: conversations as they are kept, with answers that have ended. */
async function readConversations(): Promise<unknown> {
  const settle = <T>(request: IDBRequest<T>) =>
    new Promise<T>((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  interface Kept {
    readonly title: string;
    readonly updated: number;
    readonly leaf: string;
    readonly messages: readonly {
      readonly id: string;
      readonly parent: string | null;
      readonly role: string;
      readonly content: string;
      readonly stats?: unknown;
    }[];
  }
  const database = await settle(indexedDB.open("edgewise-chat"));
  const table = database.transaction("conversations").objectStore("conversations");
  const all: Kept[] = await settle(table.getAll());
  database.close();
  all.sort((a, b) => b.updated - a.updated);
  return all.map(({ title, messages, leaf }) => {
    const at = (id: string | null) => messages.findIndex((message) => message.id === id);
    return {
      title,
      messages: messages.map(({ role, content, parent, stats }) => ({
        role,
        content: role === "assistant" && !stats ? "unfinished" : content,
        parent: at(parent),
      })),
      leaf: at(leaf),
    };
  });
}
