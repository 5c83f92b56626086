/** Asking a browser to look for finished work that it has not told of. */

/** Calls back after so many milliseconds, unless the function it returns is called before. */
export type Timer = (ms: number, call: () => void) => () => void;

export const systemTimer: Timer = (ms, call) => {
  const id = setTimeout(call, ms);
  return () => clearTimeout(id);
};

/** Milliseconds to the second nudge, which browsers round timers up to, and more to each after it. */
const WAIT_MS = { first: 4, more: 2 } as const;
/** Nudges for one piece of work at most, which takes 108 ms: by then a timer has told, too. */
export const MOST_NUDGES = 10;
/** A browser that has told nothing of an idle device after so many milliseconds is late. */
const LATE_MS = 20;
/** Looks at an idle device: a timer may be about to tell, but not twice. */
const LOOKS = 2;

/**
 * Nudge in `ms` milliseconds, and a few times after that.
 *
 * @returns what ends it.
 */
export function nudging(nudge: () => void, ms: number, timer: Timer): () => void {
  let cancel = () => {};
  let nudges = 0;
  const next = (wait: number) => {
    cancel = timer(wait, () => {
      nudge();
      nudges += 1;
      if (nudges < MOST_NUDGES) next(WAIT_MS.first + WAIT_MS.more * (nudges - 1));
    });
  };
  next(ms);
  return () => cancel();
}

/**
 * Whether a browser is late to tell of work that is done, by what it says of a device that has none.
 *
 * @param done what it tells as soon as it looks; asked for a few times.
 */
export async function isLate(done: () => Promise<unknown>, timer: Timer): Promise<boolean> {
  for (let looked = 0; looked < LOOKS; looked++) {
    const late = await new Promise<boolean>((resolve, reject) => {
      const cancel = timer(LATE_MS, () => resolve(true));
      const told = () => {
        cancel();
        resolve(false);
      };
      done().then(told, (error: unknown) => {
        cancel();
        reject(error);
      });
    });
    if (late) return true;
  }
  return false;
}
