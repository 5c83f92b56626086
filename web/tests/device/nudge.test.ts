/** Nudges: a few, and none once nobody waits any more. */

import { expect, test } from "vitest";
import { MOST_NUDGES, nudging, systemTimer } from "../../engine/nudge.ts";
import { VirtualTime } from "./late.ts";

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
