/**
 * Runs a program through the scenario, launch by launch and twice: the second time must give the same
 * bits. What launches wrote is compared with references where there are any, and kept to be compared
 * with other programs.
 */
import type { Elements, LoadedProgram } from "../device/base.ts";
import type { Plan } from "../format/plan.ts";
import { planFor } from "../format/programs.ts";
import {
  type Argument,
  argumentsOf,
  type Launch,
  placeOf,
  schemeOf,
  weightReader,
} from "./launch.ts";
import { type Keys, references } from "./references.ts";
import { type Call, scenario } from "./scenario.ts";
import type { Timeable } from "./timing.ts";

/** What is known of one kernel of one program. */
export interface KernelResult {
  readonly kernel: string;
  readonly plans: readonly string[];
  readonly launches: number;
  /** Whether every launch wrote the same bits both times. */
  readonly repeats: boolean;
  /** Largest error over `bound`'s measure; null where no launch has a reference. */
  readonly error: number | null;
  readonly bound: number | null;
}

export interface ProgramResult {
  /** What was run last: what kernels are timed at. */
  readonly last: Timeable;
  readonly kernels: readonly KernelResult[];
  /** float32 outputs by `call/plan/label`, live rows only: what programs are compared by. */
  readonly outputs: ReadonlyMap<string, Float32Array>;
}

export type Progress = (done: number, total: number) => void;

/**
 * Check every kernel that the scenario's plans launch.
 *
 * @throws EdgewiseError as the program's own calls do.
 */
export async function checkProgram(
  program: LoadedProgram,
  onProgress: Progress,
  signal: AbortSignal,
): Promise<ProgramResult> {
  const { manifest } = program;
  const calls = scenario(manifest, program.program.entries.has("logprobs"));
  const table = references(manifest.model);
  const tallies = new Map<string, Tally>();
  const outputs = new Map<string, Float32Array>();
  const first: Run = { program, weights: weightReader(program), mirror: new Map() };
  const again: Run = { ...first, mirror: new Map() };
  const keys: Keys = new Map();
  const total = 2 * calls.length;
  const written: Elements[][] = [];
  for (const [at, call] of calls.entries()) {
    signal.throwIfAborted();
    const { plan, launches } = await trace(first, call);
    for (const { launch, label, outputs: wrote } of launches) {
      const tally = tallyOf(tallies, launch.kernel);
      tally.launches += 1;
      tally.plans.add(plan);
      const reference = table.find(([pattern]) => pattern.test(launch.kernel))?.[1];
      const checked = reference ? await reference(launch, keys) : null;
      if (checked && (tally.error === null || checked.error >= tally.error)) {
        tally.error = checked.error;
        tally.bound = checked.bound;
      }
      const floats = wrote.find((data) => data instanceof Float32Array);
      if (floats instanceof Float32Array) outputs.set(`${at}/${call.operation}/${label}`, floats);
    }
    written.push(...launches.map((made) => [...made.outputs]));
    onProgress(at + 1, total);
  }
  let index = 0;
  for (const [at, call] of calls.entries()) {
    signal.throwIfAborted();
    for (const { launch, outputs: wrote } of (await trace(again, call)).launches) {
      const before = written[index++] ?? [];
      if (!wrote.every((data, i) => sameBits(data, before[i]))) {
        tallyOf(tallies, launch.kernel).repeats = false;
      }
    }
    onProgress(calls.length + at + 1, total);
  }
  const kernels = [...tallies].map(([kernel, tally]) => ({
    ...tally,
    kernel,
    plans: [...tally.plans],
  }));
  return { kernels, outputs, last: lastOf(calls) };
}

function lastOf(calls: readonly Call[]): Timeable {
  const call = calls.at(-1);
  if (!call) return { step: { n: 1, b: 1, r: 1, t: 1 }, kv: 0 };
  const positions = [...(call.inputs.get("positions") ?? [])];
  const kv = positions.reduce((sum, at) => sum + at, 0);
  return { step: call.step, kv: Math.round(kv / Math.max(positions.length, 1)) };
}

interface Tally {
  plans: Set<string>;
  launches: number;
  repeats: boolean;
  error: number | null;
  bound: number | null;
}

function tallyOf(tallies: Map<string, Tally>, kernel: string): Tally {
  const found = tallies.get(kernel);
  if (found) return found;
  const made = { plans: new Set<string>(), launches: 0, repeats: true, error: null, bound: null };
  tallies.set(kernel, made);
  return made;
}

interface Run {
  readonly program: LoadedProgram;
  readonly weights: ReturnType<typeof weightReader>;
  /** What buffers are known to hold, live rows only, by place. */
  readonly mirror: Map<string, Elements>;
}

interface Made {
  readonly launch: Launch;
  readonly label: string;
  readonly outputs: readonly Elements[];
}

/** Write a call's inputs and run its plan, launch by launch. */
async function trace(
  run: Run,
  call: Call,
): Promise<{ readonly plan: string; readonly launches: readonly Made[] }> {
  const { program, mirror } = run;
  const step = new Int32Array(8);
  step.set([call.step.n, call.step.b, call.step.r, call.step.t]);
  for (const [buffer, data] of [...call.inputs, ["step", step] as const]) {
    program.write(buffer, data);
    mirror.set(`${buffer}@0`, data);
  }
  const name = planFor(program.program, call.operation, new Map(Object.entries(call.step)));
  const plan = program.plans.get(name);
  if (plan === undefined) throw new Error(`no plan ${name}`);
  const launches: Made[] = [];
  let at = 0;
  let previous: Launch | null = null;
  for await (const traced of program.trace(name)) {
    const args = argumentsAt(plan, at++);
    const before = new Map(mirror);
    const shown = args.filter((arg) => arg.written && !arg.state);
    const outputs = shown.map((arg, i) => liveRows(traced.outputs[i]?.data, arg, call.live));
    shown.forEach((arg, i) => {
      const output = outputs[i];
      if (output) mirror.set(placeOf(arg), output);
    });
    const launch: Launch = launchOf(
      run,
      call,
      plan,
      at - 1,
      args,
      before,
      new Map(mirror),
      previous,
    );
    previous = launch;
    const compared = outputs.filter((_, i) => (shown[i]?.shape.length ?? 0) > 1);
    launches.push({ launch, label: traced.label, outputs: compared.filter((data) => !!data) });
  }
  return {
    plan: name,
    launches: launches.map((made, i) =>
      goesOn(made, launches[i + 1]) ? { ...made, outputs: [] } : made,
    ),
  };
}

/** Whether the next launch writes more of the same, as parts of a large matrix do: until then some of
 * it is of another step. */
function goesOn({ launch }: Made, next: Made | undefined): boolean {
  if (!(launch.arguments.has("weight") && next?.launch.arguments.has("weight"))) return false;
  return places(launch) === places(next.launch);
}

function places({ arguments: named }: Launch): string {
  const shown = [...named.values()].filter((arg) => arg.written && !arg.state);
  return shown.map(placeOf).join();
}

function argumentsAt(plan: Plan, at: number): Argument[] {
  const kernel = plan.kernels.get(plan.steps[at]?.kernel ?? "");
  return kernel ? argumentsOf(plan, kernel, at) : [];
}

function launchOf(
  run: Run,
  call: Call,
  plan: Plan,
  at: number,
  args: readonly Argument[],
  before: ReadonlyMap<string, Elements>,
  after: ReadonlyMap<string, Elements>,
  previous: Launch | null,
): Launch {
  const named = new Map(args.map((arg) => [arg.name, arg]));
  const place = (name: string) => {
    const arg = named.get(name);
    return arg ? placeOf(arg) : "";
  };
  return {
    program: run.program,
    call,
    kernel: plan.steps[at]?.kernel ?? "",
    layer: /^layers\.\d+/.exec(plan.steps[at]?.label ?? "")?.[0] ?? "",
    arguments: named,
    previous,
    before: (name) => before.get(place(name)),
    after: (name) => after.get(place(name)),
    buffer: (name) => before.get(`${name}@0`),
    weightRow(row, part = 0) {
      const nth = part || "";
      const weight = named.get(`weight${nth}`);
      const scheme = schemeOf(this.kernel, part);
      if (weight === undefined || scheme === undefined) {
        throw new Error(`${plan.name} step ${at} has no weight`);
      }
      return run.weights.row(scheme, weight, named.get(`scale${nth}`), row);
    },
    parameter(name) {
      const arg = named.get(name);
      if (arg === undefined) throw new Error(`${plan.name} step ${at} has no ${name}`);
      return run.weights.whole(arg.buffer, arg.shape[0] ?? 0);
    },
  };
}

/** The rows of an output that a call computes; the others hold what was there before. */
function liveRows(data: Elements | undefined, of: Argument, live: number): Elements | undefined {
  if (data === undefined || of.name === "step" || of.shape.length < 2) return data?.slice();
  const width = of.shape.slice(1).reduce((size, extent) => size * extent, 1);
  return data.slice(0, live * width);
}

function sameBits(a: Elements, b: Elements | undefined): boolean {
  if (b === undefined || a.byteLength !== b.byteLength) return false;
  const [x, y] = [a, b].map(
    (data) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
  );
  return x !== undefined && y !== undefined && x.every((byte, i) => byte === y[i]);
}
