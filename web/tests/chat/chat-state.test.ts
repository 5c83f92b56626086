import "fake-indexeddb/auto";
import { beforeEach, describe, expect, it } from "vitest";
import { currentOf, listed } from "../../chat/book.ts";
import { MAX_TOKENS } from "../../chat/bounds.ts";
import { shownOf, versionsOf } from "../../chat/branches.ts";
import { type Chat, createChat } from "../../chat/chat-state.ts";
import { ask as asked, newConversation } from "../../chat/conversations.ts";
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
const shown = () => shownOf(currentOf(chat.state().book));
const texts = () => shown().map(({ content }) => content);
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

  it("keeps its thought, and how long that took, but gives it to no template that forgets it", async () => {
    const opened = { on: true, off: false };
    const thinking = { switchable: true, byDefault: true, opened, forgets: true };
    const model = speaker({ thinking });
    const { speech, done } = ask("Hello", model);
    for (const piece of ["h", "m"]) {
      speech.think(piece);
      await turn();
      clock += 500;
    }
    speech.say("Hi");
    speech.end();
    await done;
    expect(texts()).toEqual(["Hello", "Hi"]);
    expect(currentOf(chat.state().book).messages[1]).toMatchObject({
      thought: "hm",
      thoughtMs: 500,
    });
    expect((await database.all())[0]?.messages[1]?.thoughtMs).toBe(500);
    const next = ask("And now?", model);
    expect(next.speech.messages.map(({ content }) => content)).toEqual(["Hello", "Hi", "And now?"]);
    next.speech.end();
    await next.done;
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
    const options = { maxTokens: MAX_TOKENS, contextPolicy: "drop", temperature: 0 };
    expect(speech.options).toEqual(options);
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

  it("asked in other words is shown without what followed it, which stays", async () => {
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
    chat.turn(shown()[0]?.id ?? "", -1);
    expect(texts()).toEqual(["One", "1", "Two", "2"]);
  });
});

/** Of the last message shown: which version it is, and of how many. */
function version() {
  const { messages } = currentOf(chat.state().book);
  return versionsOf(messages, shown()).at(-1);
}

describe("an answer made anew", () => {
  it("is shown beside the earlier one, which the model is not given", async () => {
    await talk("Hello", "Hi");
    const model = speaker();
    const done = chat.regenerate(model.answers);
    const [speech] = model.speeches;
    expect(speech?.messages.map(({ content }) => content)).toEqual(["Hello"]);
    speech?.say("Good");
    await turn();
    expect(texts()).toEqual(["Hello", "Hi"]);
    expect(writing()).toEqual(["Good"]);
    speech?.say(" day");
    speech?.end();
    await done;
    expect([texts(), version()]).toEqual([["Hello", "Good day"], { at: 2, of: 2 }]);
    chat.turn(shown().at(-1)?.id ?? "", -1);
    expect([texts(), version()]).toEqual([["Hello", "Hi"], { at: 1, of: 2 }]);
    const { speech: next, done: said } = ask("And?");
    expect(next.messages.map(({ content }) => content)).toEqual(["Hello", "Hi", "And?"]);
    next.end();
    await said;
    const [kept] = await database.all();
    expect(kept && shownOf(kept).map(({ content }) => content)).toEqual([
      "Hello",
      "Hi",
      "And?",
      "",
    ]);
  });

  it("that fails before its first word leaves the earlier one", async () => {
    await talk("Hello", "Hi");
    const model = speaker();
    const done = chat.regenerate(model.answers);
    model.speeches[0]?.fail(LOST);
    await done;
    expect(texts()).toEqual(["Hello", "Hi"]);
    expect(chat.state().failures.size).toBe(1);
  });
});

describe("an answer that the length limit cut off", () => {
  const tokenIds = [5, 6, 7];

  async function cutOff(): Promise<void> {
    const { speech, done } = ask("Count");
    speech.say("One, two");
    speech.end("length", { tokenIds });
    await done;
  }

  it("goes on in the same message, from its tokens", async () => {
    await cutOff();
    const model = speaker();
    const done = chat.goOn(model.answers);
    const [speech] = model.speeches;
    expect(speech?.messages.map(({ content }) => content)).toEqual(["Count"]);
    expect(speech?.options.begun).toEqual(tokenIds);
    expect(writing()).toEqual(["One, two"]);
    speech?.say("One, two");
    speech?.say(", three");
    speech?.end("stop", { tokenIds: [...tokenIds, 8] });
    await done;
    expect([texts(), version()]).toEqual([["Count", "One, two, three"], { at: 1, of: 1 }]);
    expect(shown().at(-1)?.cut).toBeUndefined();
    expect(chat.state().finished).toBe(", three");
  });

  it("may be cut off again, and go on on another page", async () => {
    await cutOff();
    const model = speaker();
    const done = chat.goOn(model.answers);
    model.speeches[0]?.say("One, two, three");
    model.speeches[0]?.end("length", { tokenIds: [...tokenIds, 8] });
    await done;
    const next = makeChat(Promise.resolve(database));
    await next.restore();
    next.pick(chat.state().book.current);
    void next.goOn(model.answers);
    expect(model.speeches[1]?.options.begun).toEqual([...tokenIds, 8]);
    next.stopAll();
  });

  it("stays as it is where going on fails", async () => {
    await cutOff();
    const before = shown();
    const model = speaker();
    const done = chat.goOn(model.answers);
    model.speeches[0]?.fail(LOST);
    await done;
    expect(shown()).toEqual(before);
  });

  it("goes on when going on failed and is tried again, before its first word or after it", async () => {
    await cutOff();
    const model = speaker();
    const attempt = async (doing: Promise<void>, said: string) => {
      const speech = model.speeches.at(-1);
      if (said !== "") speech?.say(said);
      speech?.fail(LOST);
      await doing;
      return speech?.options.begun;
    };
    expect(await attempt(chat.goOn(model.answers), "")).toEqual(tokenIds);
    expect(await attempt(chat.retry(model.answers), "One, two, th")).toEqual(tokenIds);
    expect(texts()).toEqual(["Count", "One, two, th"]);
    const done = chat.retry(model.answers);
    expect(model.speeches[2]?.options.begun).toEqual(tokenIds);
    model.speeches[2]?.say("One, two, three");
    model.speeches[2]?.end();
    await done;
    expect([texts(), version()]).toEqual([["Count", "One, two, three"], { at: 1, of: 1 }]);
    expect(chat.state().failures.size).toBe(0);
  });

  it("is made anew when that was what failed, or where the model now cannot go on", async () => {
    await cutOff();
    const [model, other] = [speaker(), speaker({ tokenizer: "letters" })];
    const anew = chat.regenerate(model.answers);
    model.speeches[0]?.fail(LOST);
    await anew;
    const again = chat.retry(model.answers);
    model.speeches[1]?.fail(LOST);
    await again;
    const going = chat.goOn(model.answers);
    model.speeches[2]?.fail(LOST);
    await going;
    void chat.retry(other.answers);
    const begun = [model, other].map(({ speeches }) =>
      speeches.map(({ options }) => options.begun),
    );
    expect(begun).toEqual([[undefined, undefined, tokenIds], [undefined]]);
    chat.stopAll();
  });

  it("does not go on by a model that has other tokens, nor does one that ended", async () => {
    await cutOff();
    const other = speaker({ tokenizer: "letters" });
    await chat.goOn(other.answers);
    await talk("And you?", "Fine.");
    await chat.goOn(other.answers);
    expect(other.speeches).toEqual([]);
  });
});

describe("a full context", () => {
  it("lets the oldest turns go, and later questions begin where it began then", async () => {
    const model = speaker({ context: 64 });
    for (const text of ["One", "Two", "Three", "Four"]) {
      const done = chat.send(model.answers, text);
      model.speeches.at(-1)?.say(`${text}.`);
      model.speeches.at(-1)?.end("stop", { droppedTurns: text === "Three" ? 2 : 0 });
      await done;
    }
    const asked = model.speeches.map(({ messages }) => messages[0]?.content);
    expect(asked).toEqual(["One", "One", "One", "Three"]);
    expect(shown().at(-1)?.stats).toMatchObject({ context: 64, droppedTurns: 2 });
    const larger = speaker({ context: 128 });
    const done = chat.send(larger.answers, "Five");
    expect(larger.speeches[0]?.messages[0]?.content).toBe("One");
    larger.speeches[0]?.end();
    await done;
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

  it("that come from a file are kept beside those that are here", async () => {
    await talk("Hello", "Hi");
    const other = asked(newConversation(1), "Good day", 2);
    chat.add([other]);
    await turn();
    expect(texts()).toEqual(["Hello", "Hi"]);
    expect(listed(chat.state().book).map(({ id }) => id)).toContain(other.id);
    expect(await database.all()).toContainEqual(other);
  });

  it("show the branch in which something was found", async () => {
    await talk("Hello", "Hi");
    const [question, found] = shown();
    const again = chat.edit(speaker().answers, question?.id ?? "", "Good day");
    chat.stop();
    await again;
    const { current } = chat.state().book;
    chat.begin();
    chat.find(current, found?.id ?? "");
    expect(texts()).toEqual(["Hello", "Hi"]);
    chat.find(current, null);
    expect(texts()).toEqual(["Hello", "Hi"]);
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
