/** Work that ends with a signal. */

import { exceptionOf } from "./errors.ts";

/**
 * What work comes to, or the signal's reason as soon as it aborts.
 *
 * @param otherwise name of the exception that an engine's error without one becomes.
 */
export function until<T>(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  otherwise?: string,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    work(signal)
      .then(resolve, (error: unknown) => reject(exceptionOf(error, otherwise)))
      .finally(() => signal.removeEventListener("abort", abort));
  });
}
