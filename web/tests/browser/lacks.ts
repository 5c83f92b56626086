/** Makes Chromium lack what other browsers do. */

/** What a page and its workers lose before their scripts run. */
export interface Lacks {
  /** Paths from the global object, as in tests/lacking.ts. */
  readonly remove: readonly string[];
  /** The adapter's features that stay. */
  readonly features: readonly string[];
  /**
   * What waits for the GPU settles on a timer of so many milliseconds, or when something is submitted, as in
   * Firefox; 0: at once.
   */
  readonly timerMs: number;
}

/** How often what had waited for the GPU was told of. */
export interface Told {
  readonly byTimer: number;
  readonly bySubmit: number;
}

/** Runs in the browser, from its text: it may use nothing of this file. */
export function takeAway({ remove, features, timerMs }: Lacks): void {
  for (const path of remove) {
    const names = path.split(".");
    const last = names.pop() ?? "";
    // biome-ignore lint/suspicious/noExplicitAny: a path through whatever there is
    const owner = names.reduce((from: any, name) => from?.[name], globalThis);
    const key = last.startsWith("@@") ? Reflect.get(Symbol, last.slice(2)) : last;
    if (owner && !Reflect.deleteProperty(owner, key)) throw new Error(`${path} stays`);
  }
  if (!globalThis.GPUAdapter) return;
  const own = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, "features")?.get;
  Object.defineProperty(GPUAdapter.prototype, "features", {
    get(this: GPUAdapter) {
      const all: ReadonlySet<string> = own?.call(this);
      return new Set(features.filter((feature) => all.has(feature)));
    },
  });
  if (timerMs === 0) return;
  const told = { byTimer: 0, bySubmit: 0 };
  Object.assign(globalThis, { told });
  const waiting = new Set<() => void>();
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (...args) {
    submit.apply(this, args);
    for (const look of [...waiting]) look();
  };
  const onTimer = (prototype: object, name: string) => {
    const real: (...args: unknown[]) => Promise<unknown> = Reflect.get(prototype, name);
    Reflect.set(prototype, name, async function (this: unknown, ...args: unknown[]) {
      const value = await real.apply(this, args);
      await new Promise<void>((resolve) => {
        const tell = (how: keyof typeof told) => {
          waiting.delete(look);
          clearTimeout(timer);
          told[how] += 1;
          resolve();
        };
        const look = () => tell("bySubmit");
        const wait = timerMs - (performance.now() % timerMs);
        const timer = setTimeout(() => tell("byTimer"), wait);
        waiting.add(look);
      });
      return value;
    });
  };
  onTimer(GPUBuffer.prototype, "mapAsync");
  onTimer(GPUQueue.prototype, "onSubmittedWorkDone");
}
