/** Nudges: a few, none once nobody waits any more, and where a browser is late. */

import { describe, expect, test } from "vitest";
import { isLate, MOST_NUDGES, nudging, systemTimer } from "../../device/nudge.ts";
import { VirtualTime } from "../engine/late.ts";

/** When nudges came, in `ms` milliseconds of virtual time; ended after `end`. */
async function nudged(first: number, ms: number, end = Number.POSITIVE_INFINITY) {
  const time = new VirtualTime();
  const at: number[] = [];
  const stop = nudging(() => at.push(time.now), first, time.timer);
  if (end < ms) time.timer(end, stop);
  await time.until(new Promise<void>((resolve) => time.timer(ms, resolve)));
  return at;
}

test("nudges come less and less often, and end by themselves", async () => {
  const at = await nudged(30, 10_000);
  expect(at).toEqual([30, 34, 40, 48, 58, 70, 84, 100, 118, 138]);
  expect(at).toHaveLength(MOST_NUDGES);
});

test("nudges end when they are told to", async () => {
  expect(await nudged(30, 10_000, 50)).toEqual([30, 34, 40, 48]);
  expect(await nudged(30, 10_000, 10)).toEqual([]);
});

test("the timer of the system calls back, and does not once it is cancelled", async () => {
  const called: string[] = [];
  const cancel = systemTimer(1, () => called.push("cancelled"));
  cancel();
  await new Promise<void>((resolve) => {
    systemTimer(2, () => {
      called.push("waited for");
      resolve();
    });
  });
  expect(called).toEqual(["waited for"]);
});

describe("a browser", () => {
  /** Whether one is late that tells of an idle device after so many milliseconds, each time. */
  const late = (...after: readonly number[]) => {
    const time = new VirtualTime();
    const waits = [...after];
    const done = () =>
      new Promise<void>((resolve) => {
        const ms = waits.shift();
        if (ms !== undefined) time.timer(ms, resolve);
      });
    return time.until(isLate(done, time.timer));
  };

  test.each([
    [[0, 0], false],
    [[12, 8], false],
    [[100], true],
    [[3, 97], true],
    [[], true],
  ])("that tells of what is done after %j milliseconds is late: %s", async (after, expected) => {
    expect(await late(...after)).toBe(expected);
  });

  test("that fails is neither late nor not", async () => {
    const lost = new Error("lost");
    await expect(isLate(() => Promise.reject(lost), systemTimer)).rejects.toBe(lost);
  });
});
