/** What is done about lost devices, from what came of the ones before. */

import { describe, expect, test } from "vitest";
import { type Answer, type Loss, Losses } from "../../worker/losses.ts";

const LOSS: Loss = { delivered: 0, busy: true, seen: true, now: 0, others: true };

/** What each of some losses is answered with; `now` goes on by a second each time. */
function answers(losses: readonly Partial<Loss>[]): readonly Answer[] {
  const session = new Losses(0);
  return losses.map((loss, i) => {
    const now = loss.now ?? 1000 * i;
    const answer = session.next({ ...LOSS, ...loss, now });
    session.restored(now);
    return answer;
  });
}

describe("a device that is lost", () => {
  test("twice for nothing is asked for less, then another program is tried, then it is over", () => {
    const losses = [{}, {}, {}, {}, { others: false }];
    expect(answers(losses)).toEqual(["again", "gently", "other", "other", "stop"]);
  });

  test("where there is no other program is given up sooner", () => {
    const losses = [{}, {}, {}].map(() => ({ others: false }));
    expect(answers(losses)).toEqual(["again", "gently", "stop"]);
  });

  test("is asked for again for as long as tokens come of it", () => {
    const losses = [{ delivered: 3 }, { delivered: 4 }, { delivered: 90 }, { delivered: 91 }];
    expect(answers(losses)).toEqual(["again", "again", "again", "again"]);
  });

  test("begins to count anew once a token has come", () => {
    const losses = [{}, {}, { delivered: 1 }, { delivered: 1 }, { delivered: 1, others: false }];
    expect(answers(losses)).toEqual(["again", "gently", "again", "gently", "stop"]);
  });

  test("while nobody sees the page is asked for again, however often", () => {
    const losses = [{}, { seen: false }, { seen: false }, { seen: false }, {}];
    expect(answers(losses)).toEqual(["again", "again", "again", "again", "gently"]);
  });

  test.each([
    ["after a while is no fault of what it was asked to do", 100_000, "again"],
    ["again and again at once is given up all the same", 1000, "stop"],
  ])("idle, %s", (_, every, last) => {
    const losses = [1, 2, 3].map((i) => ({ busy: false, others: false, now: every * i }));
    expect(answers(losses).at(-1)).toBe(last);
  });

  test("is counted, whatever is done about it", () => {
    const session = new Losses(0);
    for (const seen of [true, false, true]) session.next({ ...LOSS, seen });
    expect(session.count).toBe(3);
  });
});
