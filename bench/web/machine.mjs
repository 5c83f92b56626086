/** What a result was measured on, and waiting until nothing else is. */
import { cpus, loadavg, release, type } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const IDLE_SHARE = 0.85;
const QUIET_MS = 500;

export function describe() {
  return {
    cpu: cpus()[0].model,
    cpus: cpus().length,
    system: `${type()} ${release()}`,
    node: process.version,
    date: new Date().toISOString(),
    load: loadavg(),
  };
}

/** Waits up to `seconds` for a quiet half second; the share of CPU time idle in it. */
export async function waitUntilIdle(seconds) {
  const end = performance.now() + seconds * 1000;
  while (true) {
    const idle = await idleShare();
    if (idle >= IDLE_SHARE || performance.now() >= end) return idle;
  }
}

async function idleShare() {
  const before = ticks();
  await sleep(QUIET_MS);
  const after = ticks();
  return (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

function ticks() {
  let [idle, all] = [0, 0];
  for (const { times } of cpus()) {
    idle += times.idle;
    all += Object.values(times).reduce((a, b) => a + b, 0);
  }
  return { idle, all };
}
