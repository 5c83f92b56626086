import { describe, expect, test } from "vitest";
import { Attention } from "../../worker/attention.ts";
import { turn } from "../engine/support.ts";

describe("who waits until the page is seen", () => {
  test("does not wait where it is", async () => {
    await expect(new Attention().returned()).resolves.toBeUndefined();
  });

  test("waits until it is again", async () => {
    const attention = new Attention();
    attention.set(false);
    const back: number[] = [];
    for (const who of [1, 2]) void attention.returned().then(() => back.push(who));
    attention.set(false);
    await turn();
    expect([attention.seen, back]).toEqual([false, []]);
    attention.set(true);
    await turn();
    expect([attention.seen, back]).toEqual([true, [1, 2]]);
  });
});
