/** How fast bytes come: of late, in the time in which something was to come. */

import { expect, test } from "vitest";
import { Speed } from "../../store/speed.ts";

function measured() {
  let now = 0;
  const speed = new Speed(() => now);
  const pass = (ms: number) => {
    now += ms;
  };
  /** Something that takes so long. */
  const come = (bytes: number | null, ms: number) => {
    const came = speed.begin();
    pass(ms);
    came(bytes);
  };
  return { speed, pass, come };
}

test("nothing is known of what has not come", () => {
  const { speed, come } = measured();
  expect(speed.bytesPerMs).toBeNull();
  come(null, 50); // there was nothing to come
  expect(speed.bytesPerMs).toBeNull();
});

test("what comes together came in the same time", () => {
  const { speed, pass } = measured();
  const first = speed.begin();
  const second = speed.begin();
  pass(100);
  first(3000);
  second(1000);
  expect(speed.bytesPerMs).toBe(40);
});

test("time in which nothing was asked for does not count", () => {
  const { speed, pass, come } = measured();
  come(1000, 10);
  pass(5000);
  come(1000, 10);
  expect(speed.bytesPerMs).toBe(100);
});

test("what was to come and did not counts as nothing", () => {
  const { speed, come } = measured();
  come(0, 400);
  expect(speed.bytesPerMs).toBe(0);
});

test("only what came of late counts", () => {
  const { speed, pass, come } = measured();
  come(1_000_000, 10);
  for (let i = 0; i < 8; i++) come(1000, 100);
  expect(speed.bytesPerMs).toBe(10);
  pass(6 * 60_000);
  expect(speed.bytesPerMs).toBeNull();
});
