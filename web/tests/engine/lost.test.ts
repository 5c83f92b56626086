/** A device that is lost: nothing is, once there is another. */

import { describe, expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { makeEngine, promptOf, request, textOf, turn } from "./support.ts";

const random = new Random(23);
const PROMPT = promptOf(random, 37);
const ALL = { ignoreEos: true };

describe("a lost device", () => {
  const asked = [0, 1, 2, 3, 4, 5].map((i) =>
    request(promptOf(random, 20 + 9 * i), {
      maxTokens: 60,
      ...ALL,
      ...(i === 2 ? { temperature: 1, seed: 5, frequencyPenalty: 1 } : {}),
    }),
  );

  test.each([0, 1, 2, 5, 9])("after %i turns is replaced, and the answers go on", async (turns) => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const running = asked.map((one) => engine.submit(one));
    for (let i = 0; i < turns; i++) await turn();
    program.lose();
    await turn();
    const late = engine.submit(request(PROMPT, { maxTokens: 5, ...ALL }));
    await turn();
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 7 });
    engine.replaceProgram(new ReferenceProgram({ pages: 64, arrive: turn }));
    const completions = await Promise.all(running.map((one) => one.completion));
    expect(completions.map((c) => c.tokenIds)).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params)),
    );
    expect(completions.map((c) => c.text)).toEqual(completions.map((c) => textOf(c.tokenIds)));
    expect((await late.completion).tokenIds).toHaveLength(5);
    expect(engine.check()).toEqual([]);
  });

  test("that is not replaced ends them with the error it is given", async () => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const running = asked.map((one) => engine.submit(one));
    await turn();
    program.lose();
    engine.fail(new EdgewiseError("device.lost", "It could not be found again."));
    for (const one of running) {
      await expect(one.completion).rejects.toMatchObject({ code: "device.lost" });
    }
    engine.replaceProgram(new ReferenceProgram({ pages: 64 }));
    expect(() => engine.submit(request(PROMPT))).toThrow("could not be found");
  });

  test("may be lost again while it is replaced, and with fewer pages", async () => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const running = asked.map((one) => engine.submit(one));
    await turn();
    program.lose();
    const second = new ReferenceProgram({ pages: 64 });
    second.lose();
    engine.replaceProgram(second);
    await turn();
    engine.replaceProgram(new ReferenceProgram({ pages: 7 }), 7);
    const outcomes = await Promise.allSettled(running.map((one) => one.completion));
    const fit = asked.map(({ prompt }) => Math.ceil((prompt.length + 60) / 16) <= 7);
    expect(outcomes.map((o) => o.status === "fulfilled")).toEqual(fit);
    expect(engine.check()).toEqual([]);
  });

  test("that is lost again and again may be asked for less at a time", async () => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const running = engine.submit(request(PROMPT, { maxTokens: 20, ...ALL }));
    await turn();
    expect(program.runs[0]?.rows).toBe(PROMPT.length);
    program.lose();
    const second = new ReferenceProgram({ pages: 64, arrive: turn });
    engine.goGently();
    engine.replaceProgram(second);
    const { tokenIds } = await running.completion;
    expect(tokenIds).toEqual(
      expectedTokens(PROMPT, request(PROMPT, { maxTokens: 20, ...ALL }).params),
    );
    expect(Math.max(...second.runs.map(({ rows }) => rows))).toBe(16);
    expect(Math.max(...second.runs.map(({ k }) => k))).toBe(1);
    expect(engine.delivered).toBe(20);
  });

  test("ends what asks for too much of smaller memory", async () => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const running = engine.submit(request(PROMPT, { maxTokens: 200 }));
    program.lose();
    engine.replaceProgram(new ReferenceProgram({ pages: 4 }), 4);
    await expect(running.completion).rejects.toMatchObject({ code: "device.memory" });
  });
});
