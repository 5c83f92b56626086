/** A host that says what a test wants it to, over real WebSockets (RFC 6455; frames of one message each). */

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { Socket } from "node:net";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const TEXT = 1;
const CLOSE = 8;

type Said = Record<string, unknown> & { readonly type: string };

/** Hands things out in the order in which they came, to who waits for them. */
class Queue<T> {
  readonly there: T[] = [];
  private readonly wanted: ((item: T) => void)[] = [];

  push(item: T): void {
    const next = this.wanted.shift();
    if (next) next(item);
    else this.there.push(item);
  }

  next(): Promise<T> {
    const item = this.there.shift();
    if (item !== undefined) return Promise.resolve(item);
    return new Promise((resolve) => this.wanted.push(resolve));
  }
}

/** A client's connection, seen from the host. */
export class Peer {
  /** Resolves when the client closes, or has gone. */
  readonly closed: Promise<void>;
  private readonly socket: Socket;
  private readonly messages = new Queue<Said>();
  private buffer: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    this.closed = new Promise((resolve) => socket.once("close", () => resolve()));
    socket.on("error", () => {}); // a reset is an end like others
    socket.on("data", (data: Buffer) => this.read(data));
  }

  /** What the client says next. */
  next(): Promise<Said> {
    return this.messages.next();
  }

  /** What it has said and nobody has asked for. */
  get unread(): readonly Said[] {
    return this.messages.there;
  }

  say(message: object | string): void {
    const text = typeof message === "string" ? message : JSON.stringify(message);
    this.frame(TEXT, Buffer.from(text));
  }

  /** Close as a server does, with a code. */
  close(code: number): void {
    const payload = Buffer.alloc(2);
    payload.writeUInt16BE(code);
    this.frame(CLOSE, payload);
    this.socket.end();
  }

  /** The connection breaks. */
  drop(): void {
    this.socket.destroy();
  }

  private frame(opcode: number, payload: Buffer): void {
    const { length } = payload;
    const head = Buffer.alloc(length < 126 ? 2 : 4);
    head[0] = 0x80 | opcode;
    head[1] = Math.min(length, 126);
    if (length >= 126) head.writeUInt16BE(length, 2);
    this.socket.write(Buffer.concat([head, payload]));
  }

  private read(data: Buffer): void {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (let frame = this.taken(); frame !== null; frame = this.taken()) {
      const { opcode, payload } = frame;
      if (opcode === TEXT) this.messages.push(JSON.parse(payload.toString("utf8")));
      else if (opcode === CLOSE) this.socket.end();
    }
  }

  /** The next whole frame, without its mask. */
  private taken(): { readonly opcode: number; readonly payload: Buffer } | null {
    const { buffer } = this;
    if (buffer.length < 2) return null;
    const short = buffer.readUInt8(1) & 0x7f;
    const at = { 126: 4, 127: 10 }[short] ?? 2;
    if (buffer.length < at) return null;
    const sizes: Record<number, () => number> = {
      126: () => buffer.readUInt16BE(2),
      127: () => Number(buffer.readBigUInt64BE(2)),
    };
    const end = at + 4 + (sizes[short]?.() ?? short);
    if (buffer.length < end) return null;
    const mask = buffer.subarray(at, at + 4);
    const payload = Buffer.from(buffer.subarray(at + 4, end));
    for (let i = 0; i < payload.length; i++) payload[i] = (payload[i] ?? 0) ^ (mask[i & 3] ?? 0);
    this.buffer = buffer.subarray(end);
    return { opcode: buffer.readUInt8(0) & 15, payload };
  }
}

export interface ScriptedHost {
  readonly url: string;
  /** The next client that connects. */
  next(): Promise<Peer>;
  close(): Promise<void>;
}

export async function startScriptedHost(): Promise<ScriptedHost> {
  const peers = new Queue<Peer>();
  const sockets = new Set<Socket>();
  const server = createServer();
  server.on("upgrade", (request, socket: Socket) => {
    sockets.add(socket);
    const key = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${GUID}`);
    socket.write(
      [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        `Sec-WebSocket-Accept: ${key.digest("base64")}`,
        "Sec-WebSocket-Protocol: edgewise.v1",
        "\r\n",
      ].join("\r\n"),
    );
    peers.push(new Peer(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    next: () => peers.next(),
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
