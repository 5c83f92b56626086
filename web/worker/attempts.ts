/** Loading where the device may be lost meanwhile: by chance, or by what a program asks of it. */

import { EdgewiseError } from "../errors.ts";
import type { Attention } from "./attention.ts";
import type { Hints } from "./loader.ts";

/**
 * Try to load, again where the device is lost meanwhile: once more with the same program, then with
 * each other. A page that nobody sees waits before that.
 *
 * @param attempt loads any program but those to avoid.
 * @param avoid ids of programs that are not to be chosen; those that were in vain are added.
 * @throws EdgewiseError as `attempt` does; where no program is left, what the last one failed with.
 */
export async function loadAtLast<T>(
  attempt: (hints: Hints) => Promise<T>,
  attention: Attention,
  avoid: Set<string>,
): Promise<T> {
  let lost: EdgewiseError | null = null;
  while (true) {
    let tried: string | null = null;
    const onProgram = (id: string) => {
      tried = id;
    };
    try {
      return await attempt({ avoid, onProgram });
    } catch (error) {
      const code = error instanceof EdgewiseError ? error.code : "";
      if (lost && code === "device.no_program") throw lost;
      if (!(error instanceof EdgewiseError) || code !== "device.lost") throw error;
      if (lost) {
        // Not even a program was chosen, or it is the only one that may be.
        if (tried === null || avoid.has(tried)) throw error;
        avoid.add(tried);
      }
      lost = error;
      await attention.returned();
    }
  }
}
