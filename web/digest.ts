/** The sha256 of bytes. */
export async function sha256(data: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}

/** sha256 in lower case hex. */
export async function sha256Hex(data: Uint8Array<ArrayBuffer>): Promise<string> {
  return hex(await sha256(data));
}

/** Bytes in lower case hex. */
export function hex(data: Uint8Array): string {
  return [...data].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
