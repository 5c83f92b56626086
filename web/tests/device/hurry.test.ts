/** While a model is loaded, a browser that looks for finished work now and then is made to look. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Gpu } from "../../device/gpu.ts";
import { openDevice } from "./bench.ts";

/** Milliseconds after which such a browser looks by itself. */
const EVERY = 400;

let gpu: Gpu;

beforeEach(async () => {
  gpu = await openDevice();
});
afterEach(() => gpu.close());

/** Lets a device's work be told of when something is submitted, or after a while. */
function makeLate({ queue }: GPUDevice) {
  const told = { byTimer: 0, bySubmit: 0 };
  const waiting = new Set<() => void>();
  const [done, submit] = [queue.onSubmittedWorkDone.bind(queue), queue.submit.bind(queue)];
  const replace = (name: keyof GPUQueue, value: unknown) =>
    Object.defineProperty(queue, name, { configurable: true, value });
  replace("onSubmittedWorkDone", async () => {
    await done();
    await new Promise<void>((resolve) => {
      const tell = (how: keyof typeof told) => {
        waiting.delete(look);
        clearTimeout(timer);
        told[how] += 1;
        resolve();
      };
      const look = () => tell("bySubmit");
      const timer = setTimeout(() => tell("byTimer"), EVERY);
      waiting.add(look);
    });
  });
  replace("submit", (buffers: Iterable<GPUCommandBuffer>) => {
    submit(buffers);
    for (const look of [...waiting]) look();
  });
  return told;
}

const wait = (kind: "work" | "trial" | "making") =>
  gpu.race(gpu.device.queue.onSubmittedWorkDone(), kind);

test("what is submitted is told of by a nudge, until loading is over", async () => {
  const told = makeLate(gpu.device);
  const calm = await gpu.hurry();
  await wait("work");
  await wait("trial");
  expect(told.bySubmit).toBeGreaterThan(0);
  const nudged = told.bySubmit;
  calm();
  await wait("work");
  expect(told.bySubmit).toBe(nudged);
});

test("nobody is nudged for what is made, nor once the device is closed", async () => {
  const told = makeLate(gpu.device);
  await gpu.hurry();
  await wait("making");
  expect(told.bySubmit).toBe(0);
  const waiting = wait("work");
  gpu.close();
  await expect(waiting).rejects.toMatchObject({ code: "device.closed" });
});
