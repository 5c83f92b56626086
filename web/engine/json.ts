/** Small checks for values that come from JSON. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The JSON object that bytes hold as UTF-8.
 *
 * @throws Error, in words, for more than `limit` bytes and for anything else.
 */
export function parseObject(bytes: Uint8Array, limit: number): JsonObject {
  const value: unknown = JSON.parse(decodeText(bytes, limit));
  if (!isObject(value)) throw new TypeError("it does not hold a JSON object.");
  return value;
}

/**
 * Text of UTF-8 bytes.
 *
 * @throws Error, in words, for more than `limit` bytes and for bytes that are not UTF-8.
 */
export function decodeText(bytes: Uint8Array, limit: number): string {
  if (bytes.byteLength > limit) {
    throw new RangeError(`it has ${bytes.byteLength} bytes; at most ${limit} are read.`);
  }
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}
