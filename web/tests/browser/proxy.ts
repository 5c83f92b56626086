/**
 * Stands between the browser and `edgewise serve`: passes everything on, counts what is fetched, makes
 * downloads fail where a test asks for it, and serves the tests' own pages below /test/.
 */
import { readFile } from "node:fs/promises";
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import { connect, type Socket } from "node:net";
import { extname, join, normalize } from "node:path";
import { setTimeout } from "node:timers/promises";
import { PAGES } from "./paths.ts";
import { patchScript } from "./worker-patch.ts";

/** What happens to a response on its way. */
export type Fault =
  /**
   * The connection breaks after so many bytes of the body; with `once`, when this has resolved: until then
   * the rest trickles. Browsers drop what they have received and not yet handed on when a connection
   * breaks, so what a page has by then is known only where it was waited for.
   */
  | { readonly kind: "cut"; readonly after: number; readonly once?: Promise<unknown> }
  /** One bit of the byte at this place of the file is turned. */
  | { readonly kind: "flip"; readonly at: number }
  /** The body comes once this resolves. */
  | { readonly kind: "wait"; readonly until: Promise<void> };

export interface Fetched {
  readonly path: string;
  readonly range: string | null;
  readonly status: number;
}

export interface HostProxy {
  /** Origin, without a slash at the end. */
  readonly url: string;
  /** What was fetched from the host, in order. */
  readonly fetched: Fetched[];
  /** Asked for every response below /bundles/. */
  fault: (path: string) => Fault | null;
  /** While true, the tests' own files are for every origin, and their pages have no content security policy. */
  shared: boolean;
  /** While true, whoever connects is hung up on. */
  down: boolean;
  /** Bytes from the host after which a WebSocket breaks, where one is to; the next one has twice as many. */
  socketBytes: number;
  /** WebSockets that broke so. */
  broken: number;
  /** WebSockets that are open. */
  readonly sockets: ReadonlySet<Socket>;
  close(): Promise<void>;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".wasm": "application/wasm",
  ".map": "application/json",
};

/** Headers that the host sets on pages; the tests' own pages live under the same rules. */
const POLICY = [
  "content-security-policy",
  "cross-origin-opener-policy",
  "cross-origin-embedder-policy",
  "cross-origin-resource-policy",
];

/** Ports that were used in this process: an origin is not to find what another kept. */
const used = new Set<number>();

/** Listens on a free port: every proxy is an origin, with storage of its own. */
export async function startProxy(host: string): Promise<HostProxy> {
  const policy = policyOf(await fetch(`${host}/`));
  const server = createServer((incoming, outgoing) => {
    const path = new URL(incoming.url ?? "/", host).pathname;
    if (proxy.down) return void outgoing.destroy();
    if (path.startsWith("/test/"))
      void own(incoming, outgoing, proxy.shared ? shared(policy) : policy);
    else forward(incoming, outgoing, host, path, proxy);
  });
  const sockets = new Set<Socket>();
  server.on("upgrade", (incoming, socket: Socket, head) => {
    if (proxy.down) return void socket.destroy();
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    passOn(incoming, socket, head, host, proxy);
  });
  let port = await listen(server);
  for (; used.has(port); port = await listen(server)) await closed(server);
  used.add(port);
  const proxy: HostProxy = {
    url: `http://127.0.0.1:${port}`,
    fetched: [],
    fault: () => null,
    shared: false,
    down: false,
    socketBytes: Number.POSITIVE_INFINITY,
    broken: 0,
    sockets,
    close: () => {
      for (const socket of sockets) socket.destroy();
      return closed(server);
    },
  };
  return proxy;
}

function policyOf(page: Response): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of POLICY) {
    const value = page.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}

function shared(policy: Readonly<Record<string, string>>): Record<string, string> {
  const { "content-security-policy": _, ...others } = policy;
  return { ...others, "access-control-allow-origin": "*" };
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address ? address.port : 0);
    });
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.closeAllConnections();
    server.close(() => resolve());
  });
}

/** Pages made by global-setup.ts, and workers that are patched before their own script runs. */
async function own(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  policy: Readonly<Record<string, string>>,
): Promise<void> {
  const url = new URL(incoming.url ?? "/", "http://localhost");
  const type = TYPES[extname(url.pathname)] ?? "application/octet-stream";
  try {
    const body =
      url.pathname === "/test/worker.js" || url.pathname === "/test/patch.js"
        ? patchScript(url)
        : await readFile(join(PAGES, normalize(url.pathname.slice("/test".length))));
    outgoing.writeHead(200, { ...policy, "content-type": type }).end(body);
  } catch {
    outgoing.writeHead(404).end();
  }
}

function forward(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  host: string,
  path: string,
  proxy: HostProxy,
): void {
  const target = new URL(incoming.url ?? "/", host);
  const headers = { ...incoming.headers, host: target.host };
  // A flipped byte needs the bytes as they are, not compressed.
  if (path.startsWith("/bundles/")) delete headers["accept-encoding"];
  if (headers.origin) headers.origin = target.origin;
  const asked = request(target, { method: incoming.method, headers }, (answer) => {
    const status = answer.statusCode ?? 502;
    const range = typeof headers.range === "string" ? headers.range : null;
    proxy.fetched.push({ path, range, status });
    outgoing.writeHead(status, answer.headers);
    const fault = path.startsWith("/bundles/") ? proxy.fault(path) : null;
    if (fault === null) answer.pipe(outgoing);
    else if (fault.kind === "wait") void fault.until.then(() => answer.pipe(outgoing));
    else if (fault.kind === "cut") void cut(answer, outgoing, fault);
    else flip(answer, outgoing, fault.at - startOf(answer.headers["content-range"]));
  });
  asked.once("error", () => outgoing.destroy());
  outgoing.once("close", () => asked.destroy());
  incoming.pipe(asked);
}

/** A WebSocket: its handshake, and then whatever comes. */
function passOn(
  incoming: IncomingMessage,
  socket: Socket,
  head: Buffer,
  host: string,
  proxy: HostProxy,
): void {
  const target = new URL(host);
  const upstream = connect(Number(target.port), target.hostname);
  const headers = { ...incoming.headers, host: target.host, origin: target.origin };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  upstream.write(`GET ${incoming.url} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  upstream.write(head);
  let left = proxy.socketBytes;
  socket.pipe(upstream);
  upstream.on("data", (chunk: Buffer) => {
    socket.write(chunk.subarray(0, Math.max(left, 0)), () => {
      if (left > 0 || socket.destroyed) return;
      proxy.broken += 1;
      proxy.socketBytes *= 2;
      socket.destroy();
    });
    left -= chunk.length;
  });
  for (const [one, other] of [
    [socket, upstream],
    [upstream, socket],
  ] as const) {
    one.once("error", () => other.destroy());
    one.once("close", () => other.destroy());
  }
}

/** Hand an answer on with a bit turned in the byte at `place` of it. */
function flip(answer: IncomingMessage, outgoing: ServerResponse, place: number): void {
  let at = 0;
  answer.on("data", (chunk: Buffer) => {
    const own = place - at;
    if (own >= 0 && own < chunk.length) chunk.writeUInt8(chunk.readUInt8(own) ^ 1, own);
    outgoing.write(chunk);
    at += chunk.length;
  });
  answer.once("end", () => outgoing.end());
}

async function cut(
  answer: IncomingMessage,
  outgoing: ServerResponse,
  { after, once }: Extract<Fault, { readonly kind: "cut" }>,
): Promise<void> {
  let over = once === undefined;
  void once?.then(() => {
    over = true;
  });
  const write = (part: Uint8Array) =>
    new Promise<void>((resolve) => {
      outgoing.write(part, () => resolve());
    });
  let left = after;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    const whole = chunk.subarray(0, left);
    await write(whole);
    left -= whole.length;
    for (const byte of chunk.subarray(whole.length)) {
      if (over || outgoing.destroyed) {
        outgoing.destroy();
        return;
      }
      await write(Uint8Array.of(byte));
      await setTimeout(20);
    }
  }
  outgoing.end();
}

/** First byte of a file that a response begins with. */
function startOf(contentRange: string | undefined): number {
  return Number(/^bytes (\d+)-/.exec(contentRange ?? "")?.[1] ?? 0);
}
