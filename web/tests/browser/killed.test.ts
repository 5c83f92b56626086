import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { Random } from "../engine/random.ts";
import { FULL } from "../suite.ts";
import { keptFiles } from "./kept-files.ts";
import { launch, type RunningBrowser } from "./launch.ts";
import type { Talked } from "./model-of-chat.ts";
import { WAIT } from "./paths.ts";
import { type HostProxy, startProxy } from "./proxy.ts";
import { openSession, type Session } from "./session.ts";
import { Reference, Talking } from "./talking.ts";
import { by } from "./visits.ts";

const SEED = Number(process.env.EDGEWISE_SEED ?? 47);
const ROUNDS = FULL ? 16 : 2;
const LIMIT = 64 * 41_072;
const NAMES = ["Ada", "Alan", "Emmy", "Grace", "Kurt", "Mary", "Paul", "Rosa"];

let browser: RunningBrowser;
let proxy: HostProxy;
let session: Session;

beforeAll(async () => {
  browser = await launch("lavapipe", inject("profiles"));
  proxy = await startProxy(inject("host"));
  session = await openSession(browser, proxy);
});
afterAll(async () => {
  await browser?.close();
  await proxy?.close();
});

/** Which of some states the conversations come to. */
async function outcome(talking: Talking, states: Readonly<Record<string, readonly Talked[]>>) {
  const found = async () => {
    const kept = JSON.stringify(await talking.conversations());
    return Object.keys(states).find((name) => kept === JSON.stringify(states[name]));
  };
  await expect.poll(found, { timeout: WAIT.timeout / 5 }).toBeDefined();
  return found();
}

it(
  `killed ${ROUNDS} times while it answers and while it saves, a browser has what was there, all of it or nothing`,
  async () => {
    const random = new Random(SEED);
    const reference = new Reference(48);
    const talking = await Talking.begin(session, { limit: LIMIT }, reference);
    for (let round = 0; round < ROUNDS; round++) {
      const question = `${random.pick(NAMES)} counts ${round + 2} birds. What comes next?`;
      const share = random.next();
      const states = await talking.cutOff(question, async ({ text, keys }) => {
        const pages = Math.ceil(share * keys.length);
        const answer = by(talking.page, "assistant-message").last().locator(".markdown");
        const said = async () =>
          ((await answer.textContent()) ?? "").length > share * (text.length - 2);
        const kept = async () =>
          (await keptFiles(talking.page)).files.filter(({ key }) => keys.includes(key)).length >=
          pages;
        await expect
          .poll(round % 2 === 0 ? said : kept, { timeout: WAIT.timeout / 5, interval: 5 })
          .toBe(true);
      });
      browser = await browser.restart("kill");
      session = await openSession(browser, proxy);
      await talking.move(session);
      // Where an answer was begun it goes on by itself.
      const found = await outcome(talking, states);
      await talking.expectSoundPages();
      await talking.reload();
      talking.model.all = [...(states[found as keyof typeof states] ?? [])];
      if (found === "old") await talking.ask(question);
      else await talking.pick(0);
      if (found === "asked") await talking.answerAgain();
      await talking.expectConversations();
      await talking.ask("Who counts them?");
      await talking.settled();
      await talking.expectSoundPages();
      expect(session.complaints).toEqual([]);
    }
  },
  20 * WAIT.timeout,
);
