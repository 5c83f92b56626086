/** Opening a WebSocket of `edgewise.v1`: docs/protocol.md. */

import { EdgewiseError } from "../errors.ts";

export interface HostOptions {
  /** Such as `https://localhost:8321`; by default the page's own. */
  readonly host?: string;
  /** What the host wants of programs, where it wants a key. */
  readonly key?: string;
}

const SUBPROTOCOL = "edgewise.v1";

/** An address of the host. */
export function at({ host }: HostOptions, path: string): URL {
  return new URL(path, host ?? location.href);
}

/**
 * An open socket.
 *
 * @throws EdgewiseError `host.gone` where nobody answers, `host.key` where the key is not right.
 */
export async function openSocket(options: HostOptions): Promise<WebSocket> {
  const protocols = options.key ? await ticket(options, options.key) : [SUBPROTOCOL];
  const url = at(options, "/v1/ws");
  url.protocol = url.protocol.replace("http", "ws");
  return await new Promise((resolve, reject) => {
    const socket = new WebSocket(url, protocols);
    socket.onopen = () => resolve(socket);
    socket.onerror = () =>
      reject(
        new EdgewiseError(
          "host.gone",
          `The host at ${url.host} takes no connection.`,
          "See that it runs, and whether it wants a key (#key= in the page's address).",
        ),
      );
  });
}

/** How a page says a key: sockets take no headers. */
async function ticket(options: HostOptions, key: string): Promise<string[]> {
  const url = at(options, "/v1/ws/ticket");
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers }).catch((cause: unknown) => {
    throw EdgewiseError.from(cause, "host.gone", `The host at ${url.host} does not answer`);
  });
  if (!answer.ok) {
    throw new EdgewiseError(
      "host.key",
      `The host at ${url.host} answers ${answer.status} to the key.`,
      "Give the key that the host was started with.",
    );
  }
  const { protocols }: { protocols?: unknown } = await answer.json();
  if (Array.isArray(protocols) && protocols.every((one) => typeof one === "string")) {
    return protocols;
  }
  throw new EdgewiseError("host.wrong", `The host at ${url.host} gave no ticket.`);
}
