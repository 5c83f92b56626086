/** Starting the engine's worker, by a script of this page's origin or of another one. */

import { EdgewiseError } from "../errors.ts";

const OPTIONS = { type: "module", name: "edgewise" } as const;

const OWN =
  "Reload the page; if it goes on, check that the worker script is served beside the page.";

export interface Started {
  readonly worker: Worker;
  /** What to do where its script does not run. */
  readonly remedy: string;
}

/**
 * Start the worker of a script, or of this library's own.
 *
 * Browsers start workers by scripts of the page's origin only. One of another origin, such as a CDN, is
 * imported by a worker of one line that the page makes itself; its host must allow that (CORS), and so must
 * the page's content security policy.
 *
 * @param here where this library was loaded from: the npm package has the worker beside it.
 * @throws EdgewiseError `worker.failed` where the browser does not even try.
 */
export function startWorker(url?: string | URL, here: string = import.meta.url): Started {
  const script = url === undefined ? new URL("worker.js", here) : new URL(url, document.baseURI);
  const foreign = isForeign(script);
  const remedy = foreign ? remedyFor(script) : OWN;
  try {
    if (foreign) return { worker: importing(script), remedy };
    if (url !== undefined) return { worker: new Worker(script, OPTIONS), remedy };
    // A bundler finds the worker only where the whole expression is written out.
    const worker = new Worker(new URL("../worker/worker.ts", import.meta.url), {
      type: "module",
      name: "edgewise",
    });
    return { worker, remedy };
  } catch (cause) {
    throw EdgewiseError.from(cause, "worker.failed", "The engine's worker cannot start", remedy);
  }
}

/** Scripts without a host, such as blobs, are the page's own. */
function isForeign({ protocol, origin }: URL): boolean {
  return /^https?:$/.test(protocol) && origin !== location.origin;
}

function importing(script: URL): Worker {
  const source = `import ${JSON.stringify(script.href)};\n`;
  const blob = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker = new Worker(blob, OPTIONS);
  // Not at once: a browser may read it later.
  const forget = () => URL.revokeObjectURL(blob);
  worker.addEventListener("message", forget, { once: true });
  worker.addEventListener("error", forget, { once: true });
  return worker;
}

function remedyFor({ href, origin }: URL): string {
  return (
    `${href} must answer with Access-Control-Allow-Origin, and where the page has a content security policy, ` +
    `that must have worker-src blob: and script-src ${origin}. Or copy the script to the page's own host, ` +
    "and name it with workerUrl."
  );
}
