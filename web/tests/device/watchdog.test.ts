/** A wait that does not end is given up, after as long as nothing that is only slow takes. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { answered, type Waiting, Watchdog } from "../../device/watchdog.ts";

const barks: number[] = [];
let watchdog: Watchdog;

beforeEach(() => {
  vi.useFakeTimers();
  barks.length = 0;
  watchdog = new Watchdog((seconds) => barks.push(seconds));
});
afterEach(() => vi.useRealTimers());

/** Seconds after which a wait is given up, from now. */
function given(kind: Waiting): number | undefined {
  watchdog.begin(kind);
  vi.advanceTimersByTime(3_600_000);
  return barks.at(-1);
}

function worked(seconds: number): void {
  const done = watchdog.begin("work");
  vi.advanceTimersByTime(1000 * seconds);
  done();
}

describe("a wait", () => {
  test("that ends is none any more", () => {
    worked(20);
    vi.advanceTimersByTime(3_600_000);
    expect(barks).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test.each([
    ["before any work is done may be long: nobody knows how slow the device is", [], 301],
    ["on a fast device is a minute", [0, 0], 61],
    ["is twenty times what took longest", [1, 9, 2], 181],
    ["has an end on the slowest device, too", [100, 200], 601],
  ])("for work %s", (_, before, expected) => {
    for (const seconds of before) worked(seconds);
    expect(given("work")).toBe(expected);
  });

  test.each(["making", "trial"] as const)(
    "for %s does not depend on how long work takes",
    (kind) => {
      worked(9);
      expect(given(kind)).toBe(301);
    },
  );

  test("for what is timed says nothing of how long work takes", () => {
    watchdog.begin("trial")();
    expect(given("work")).toBe(301);
  });

  test("that is given up is told once, and the others with it", () => {
    watchdog.begin("work");
    watchdog.begin("work");
    watchdog.begin("making");
    expect(given("work")).toBe(301);
    expect(barks).toHaveLength(1);
  });

  test("of a device that is gone is nothing", () => {
    watchdog.begin("work");
    watchdog.end();
    vi.advanceTimersByTime(3_600_000);
    expect(barks).toEqual([]);
  });
});

describe("a question", () => {
  const late = (seconds: number) => new Error(`none in ${seconds} seconds`);

  test("has its answer", async () => {
    await expect(answered(Promise.resolve(5), late)).resolves.toBe(5);
    await expect(answered(Promise.reject(new Error("no")), late)).rejects.toThrow("no");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("that is never answered is an error", async () => {
    const asked = answered(new Promise(() => {}), late);
    const failed = expect(asked).rejects.toThrow("none in 301 seconds");
    await vi.advanceTimersByTimeAsync(400_000);
    await failed;
  });
});
