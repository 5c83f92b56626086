import "fake-indexeddb/auto";
import { beforeEach, describe, expect, it } from "vitest";
import { currentOf, listed } from "../../chat/book.ts";
import { type Chat, createChat, MAX_TOKENS } from "../../chat/chat-state.ts";
import { type Database, openDatabase } from "../../chat/database.ts";
import { EdgewiseError } from "../../errors.ts";
import { type Speech, speaker } from "./speaker.ts";

const LOST = new EdgewiseError("device.lost", "The GPU was lost.", "Load the model again.");

let databases = 0;
let database: Database;
let clock: number;
let frames: (() => void)[];
let drawn: number;
let chat: Chat;

const turn = () => new Promise<void>((resolve) => setTimeout(resolve));
const texts = () => currentOf(chat.state().book).messages.map(({ content }) => content);
const writing = () => [...chat.state().writing.values()].map(({ message }) => message.content);

function makeChat(opened: Promise<Database>): Chat {
  return createChat({
    database: opened,
    onFrame: (act) => frames.push(act),
    onState: () => {
      drawn += 1;
    },
    now: () => clock,
  });
}

beforeEach(async () => {
  clock = 1000;
  frames = [];
  drawn = 0;
  databases += 1;
  database = await openDatabase(`chat-state-${databases}`);
  chat = makeChat(Promise.resolve(database));
});

/** Ask, and let the test give the answer. */
function ask(text: string, model = speaker()): { speech: Speech; done: Promise<void> } {
  const done = chat.send(model.answers, text);
  const speech = model.speeches.at(-1);
  if (!speech) throw new Error("nothing was asked");
  return { speech, done };
}

async function talk(question: string, reply: string): Promise<void> {
  const { speech, done } = ask(question);
  speech.say(reply);
  speech.end();
  await done;
}

describe("an answer", () => {
  it("grows apart from the conversation and joins it at its end", async () => {
    const { speech, done } = ask("Hello");
    speech.say("Hi");
    await turn();
    expect([texts(), writing()]).toEqual([["Hello"], ["Hi"]]);
    speech.say(" there");
    speech.end();
    await done;
    expect([texts(), writing()]).toEqual([["Hello", "Hi there"], []]);
    const { stats } = currentOf(chat.state().book).messages[1] ?? {};
    expect(stats).toMatchObject({ tokensPerSecond: 20, ttftMs: 80, cachedTokens: 4 });
    expect(chat.state().finished).toBe("Hi there");
  });

  it("is drawn once a frame, however many tokens come", async () => {
    const { speech, done } = ask("Hello");
    await turn();
    const before = drawn;
    for (const text of "a b c d e f".split(" ")) speech.say(text);
    await turn();
    expect([drawn - before, frames.length]).toEqual([0, 1]);
    frames[0]?.();
    expect([drawn - before, writing()]).toEqual([1, ["abcdef"]]);
    speech.end();
    await done;
  });

  it("is kept now and then while it grows, for pages that are closed", async () => {
    const { speech, done } = ask("Hello");
    clock += 1500;
    speech.say("Half of");
    await turn();
    await turn();
    const [kept] = await database.all();
    expect(kept?.messages.map(({ content }) => content)).toEqual(["Hello", "Half of"]);
    speech.end();
    await done;
  });

  it("stays where it is when it is stopped", async () => {
    const { speech, done } = ask("Hello");
    speech.say("Once upon");
    await turn();
    chat.stop();
    await done;
    expect(texts()).toEqual(["Hello", "Once upon"]);
    expect(currentOf(chat.state().book).messages[1]?.stats?.finish).toBe("cancelled");
  });

  it("that fails leaves what was said, the reason, and a question to ask again", async () => {
    const { speech, done } = ask("Hello");
    speech.say("Half");
    speech.fail(LOST);
    await done;
    const { failures, book } = chat.state();
    expect(failures.get(book.current)).toEqual(LOST.toJson());
    expect(texts()).toEqual(["Hello", "Half"]);
    const model = speaker();
    const again = chat.regenerate(model.answers);
    expect(chat.state().failures.size).toBe(0);
    model.speeches[0]?.say("Whole");
    model.speeches[0]?.end();
    await again;
    expect(texts()).toEqual(["Hello", "Whole"]);
  });

  it("that fails before its first word leaves only the question", async () => {
    const { speech, done } = ask("Hello");
    speech.fail(LOST);
    await done;
    expect(texts()).toEqual(["Hello"]);
  });
});

describe("a question", () => {
  it("is given with what was said before, the system prompt and the settings", async () => {
    chat.configure({ system: "Be brief.", settings: { temperature: 0 } });
    await talk("Hello", "Hi");
    const { speech, done } = ask("And now?");
    expect(speech.messages.map(({ content }) => content)).toEqual([
      "Be brief.",
      "Hello",
      "Hi",
      "And now?",
    ]);
    expect(speech.options).toEqual({ maxTokens: MAX_TOKENS, temperature: 0 });
    speech.end();
    await done;
  });

  it("may have an answer as long as the person says, else as the model says", () => {
    const model = speaker();
    void chat.send(model.answers, "Hello", 200);
    chat.configure({ settings: { maxTokens: 5 } });
    void chat.send(model.answers, "Again", 200);
    expect(model.speeches.map(({ options }) => options.maxTokens)).toEqual([200, 5]);
    chat.stopAll();
  });

  it("asked in other words drops what followed it", async () => {
    await talk("One", "1");
    await talk("Two", "2");
    const [first] = currentOf(chat.state().book).messages;
    const model = speaker();
    const done = chat.edit(model.answers, first?.id ?? "", "Three");
    model.speeches[0]?.say("3");
    model.speeches[0]?.end();
    await done;
    expect(texts()).toEqual(["Three", "3"]);
    expect(currentOf(chat.state().book).title).toBe("Three");
  });
});

describe("conversations", () => {
  it("are answered side by side", async () => {
    const one = ask("One");
    const first = chat.state().book.current;
    chat.begin();
    const two = ask("Two");
    one.speech.say("1");
    two.speech.say("2");
    one.speech.end();
    two.speech.end();
    await Promise.all([one.done, two.done]);
    expect(texts()).toEqual(["Two", "2"]);
    chat.pick(first);
    expect(texts()).toEqual(["One", "1"]);
  });

  it("keep a name that they are given while an answer grows", async () => {
    const { speech, done } = ask("Hello");
    chat.rename(chat.state().book.current, "Greetings");
    speech.say("Hi");
    speech.end();
    await done;
    expect((await database.all())[0]).toMatchObject({ title: "Greetings" });
  });

  it("that are deleted while an answer grows stay deleted, and can be brought back", async () => {
    const { speech, done } = ask("Hello");
    speech.say("Hi");
    await turn();
    chat.remove(chat.state().book.current);
    await done;
    expect([listed(chat.state().book), await database.all()]).toEqual([[], []]);
    chat.undo();
    await turn();
    expect(texts()).toEqual(["Hello"]);
    expect(await database.all()).toHaveLength(1);
  });

  it("are there on the next page", async () => {
    await talk("Hello", "Hi");
    const next = makeChat(Promise.resolve(database));
    await next.restore();
    expect(listed(next.state().book)).toEqual(listed(chat.state().book));
  });

  it("that another tab changed are seen, but not over an answer that grows", async () => {
    await talk("Hello", "Hi");
    const other = makeChat(Promise.resolve(database));
    await other.restore();
    other.pick(chat.state().book.current);
    clock += 10;
    const model = speaker();
    const elsewhere = other.send(model.answers, "From there");
    model.speeches[0]?.end();
    await elsewhere;
    await chat.restore();
    expect(texts()).toEqual(["Hello", "Hi", "From there", ""]);
    const { speech, done } = ask("From here");
    clock += 2000;
    speech.say("Growing");
    await turn();
    await chat.restore();
    expect([texts().at(-1), writing()]).toEqual(["From here", ["Growing"]]);
    speech.end();
    await done;
  });

  it("go on where the browser keeps nothing, and say so", async () => {
    chat = makeChat(Promise.reject(new DOMException("Not here", "SecurityError")));
    await chat.restore();
    await talk("Hello", "Hi");
    expect(texts()).toEqual(["Hello", "Hi"]);
    expect(chat.state().unkept?.message).toContain("Not here");
  });
});
