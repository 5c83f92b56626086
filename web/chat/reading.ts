/** What readers of kept conversations have in common. */

import { EdgewiseError, shorten } from "../errors.ts";

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function wrong(of: string, value: unknown, wanted: string): EdgewiseError {
  return new EdgewiseError("chat.conversation", `${of} is ${shorten(value)}, not ${wanted}.`);
}
