/** An HTTP host of some files that misbehaves where a test asks for it. */

import { createServer, type ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { gzipSync } from "node:zlib";

/** Bytes a slow host sends at a time; pieces are no multiple of it. */
const STEP = 700;

export interface Misbehaviour {
  /** The connection breaks after so many bytes of the body. */
  readonly cutAfter?: number;
  readonly ignoreRange?: boolean;
  /** One bit of this byte of the file is turned. */
  readonly flip?: number;
  /** So many bytes more than there are follow. */
  readonly extra?: number;
  /** Sent instead of the true one; empty: no such header. */
  readonly contentRange?: string;
  readonly status?: number;
  readonly gzip?: boolean;
  /** Milliseconds between 700 bytes and the next. */
  readonly slow?: number;
}

export interface Asked {
  readonly path: string;
  readonly range: string | null;
}

export interface Host {
  /** Ends with a slash. */
  readonly url: string;
  readonly files: Map<string, Uint8Array>;
  readonly asked: Asked[];
  /** How it answers a request; `nth` counts from 1 over all of them. */
  misbehave: (path: string, nth: number) => Misbehaviour;
  /** Most answers that were under way at once. */
  readonly busiest: () => number;
  close(): Promise<void>;
}

export async function startHost(): Promise<Host> {
  let busy = 0;
  let busiest = 0;
  const server = createServer(async (request, response) => {
    const path = (request.url ?? "/").slice(1);
    const range = request.headers.range ?? null;
    busiest = Math.max(busiest, ++busy);
    let counted = true;
    const done = () => {
      if (counted) busy--;
      counted = false;
    };
    response.on("close", done);
    host.asked.push({ path, range });
    const file = host.files.get(path);
    if (!file) {
      done();
      return void response.writeHead(404).end("no such file");
    }
    await answer(response, file, range, host.misbehave(path, host.asked.length), done);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const host: Host = {
    url: `http://127.0.0.1:${port}/`,
    files: new Map(),
    asked: [],
    misbehave: () => ({}),
    busiest: () => busiest,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return host;
}

async function answer(
  response: ServerResponse,
  file: Uint8Array,
  range: string | null,
  how: Misbehaviour,
  /** Called before the last bytes: who has them may ask for more before this host hears of it. */
  done: () => void,
): Promise<void> {
  if (how.status !== undefined) {
    done();
    return void response.writeHead(how.status).end("not now");
  }
  const content = file.slice();
  if (how.flip !== undefined) content[how.flip] = (content[how.flip] ?? 0) ^ 1;
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range ?? "") ?? [];
  const partial = from !== undefined && !how.ignoreRange;
  const [start, end] = partial ? [Number(from), Number(to) + 1] : [0, content.length];
  let body: Uint8Array = Buffer.concat([
    content.subarray(start, end),
    Buffer.alloc(how.extra ?? 0, 7),
  ]);
  if (how.gzip) body = gzipSync(body);
  const shown = how.contentRange ?? `bytes ${start}-${end - 1}/${content.length}`;
  response.writeHead(partial ? 206 : 200, {
    "content-length": body.length,
    ...(partial && shown !== "" ? { "content-range": shown } : {}),
    ...(how.gzip ? { "content-encoding": "gzip" } : {}),
  });
  if (how.cutAfter !== undefined) {
    response.write(body.subarray(0, how.cutAfter), () => response.destroy());
  } else if (how.slow !== undefined) {
    for (let at = 0; at < body.length && !response.destroyed; at += STEP) {
      if (at + STEP >= body.length) done();
      response.write(body.subarray(at, at + STEP));
      await wait(how.slow);
    }
    response.end();
  } else {
    done();
    response.end(body);
  }
}
