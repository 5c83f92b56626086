/**
 * Tries cases of one format, in a process of its own whose memory and time are looked at:
 *
 *     node child.mjs FORMAT SEED FIRST COUNT FOLDER
 *
 * The number of the case in progress is in FOLDER/progress, the case beside it, and findings are
 * lines of JSON.
 */

import {
  appendFileSync,
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { EdgewiseError } from "../../errors.ts";
import { Random } from "../engine/random.ts";
import { FORMATS } from "./formats.ts";

/** Microseconds of the processor that a case may take, and bytes beside twice its own. */
const MAX_CPU = 5e6;
const MAX_MEMORY = 100 << 20;
const MAX_WORDS = 4000;

const [, , name = "", seed, first, count, folder] = process.argv;
const format = FORMATS[name]?.();
if (!format) throw new RangeError(`there is no format ${name}`);

const handle = openSync(`${folder}/progress`, "w");
const note = (number: number, done: number, refused: number): void => {
  writeSync(handle, `${number} ${done} ${refused}`.padEnd(60), 0);
};
let [done, refused] = [0, 0];
for (const data of format.seeds) await format.use(data);
for (let number = Number(first); number < Number(first) + Number(count); number++) {
  note(number, done, refused);
  const rng = new Random(Math.imul(Number(seed), 0x9e3779b1) + number);
  const data = format.mutate(rng, rng.pick(format.seeds));
  writeFileSync(`${folder}/case`, data);
  writeFileSync("/proc/self/clear_refs", "5");
  const [before, began] = [kib("VmRSS"), process.cpuUsage()];
  const found = await attempt(() => format.use(data));
  const { user, system } = process.cpuUsage(began);
  const took = 1024 * (kib("VmHWM") - before);
  done += 1;
  if (found === "refused") refused += 1;
  else if (found) report(number, "exception", found);
  if (user + system > MAX_CPU) report(number, "hang", `${(user + system) / 1e6} s`);
  if (took > 2 * data.length + MAX_MEMORY) report(number, "memory", `${took} bytes`);
}
note(-1, done, refused);
closeSync(handle);

async function attempt(body: () => Promise<void> | void): Promise<string | null> {
  try {
    await body();
    return null;
  } catch (error) {
    if (!(error instanceof EdgewiseError)) {
      return error instanceof Error ? String(error.stack ?? error) : String(error);
    }
    const words = error.message.length + error.remedy.length;
    return words > MAX_WORDS ? `${words} characters of words: ${error.code}` : "refused";
  }
}

function report(number: number, kind: string, what: string): void {
  const kept = `build/fuzz-${name}-${seed}-${number}`;
  copyFileSync(`${folder}/case`, kept);
  const line = JSON.stringify([number, kind, `kept as ${kept}`, what.slice(0, 2000)]);
  appendFileSync(`${folder}/findings`, `${line}\n`);
}

function kib(field: string): number {
  const status = readFileSync("/proc/self/status", "latin1");
  return Number(/\d+/.exec(status.slice(status.indexOf(field)))?.[0]);
}
