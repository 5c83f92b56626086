/** Loading where the device may be lost meanwhile: by chance, or by what a program asks of it. */

import { EdgewiseError } from "../errors.ts";
import type { Store } from "../store/store.ts";
import type { Attention } from "./attention.ts";
import { type Loaded, load } from "./loader.ts";
import type { LoadRequest } from "./protocol.ts";
import type { Reporter } from "./reporter.ts";

/**
 * Load a model, again where the device is lost meanwhile: once with the same program, then with each
 * other. A page that nobody sees waits before that.
 *
 * @param avoid ids of programs that are not to be chosen; those that were in vain are added.
 * @throws EdgewiseError as `load` does.
 */
export async function loadAtLast(
  request: LoadRequest,
  store: Store,
  reporter: Reporter,
  attention: Attention,
  signal: AbortSignal,
  avoid: Set<string>,
): Promise<Loaded> {
  let lost: EdgewiseError | null = null;
  while (true) {
    let tried: string | null = null;
    const onProgram = (id: string) => {
      tried = id;
    };
    try {
      return await load(request, store, reporter, signal, { avoid, onProgram });
    } catch (error) {
      const code = error instanceof EdgewiseError ? error.code : "";
      if (lost && code === "device.no_program") throw lost; // all of them have been tried
      if (!(error instanceof EdgewiseError) || code !== "device.lost") throw error;
      if (lost && (tried === null || request.program !== undefined)) throw error;
      if (lost && tried !== null) avoid.add(tried);
      lost = error;
      await attention.returned();
    }
  }
}
