/** Errors by the names that the Prompt API has for them. */

import { EdgewiseError } from "../../errors.ts";

/** Names by the beginnings of our codes; the first that fits. */
const NAMES: readonly (readonly [string, string])[] = [
  ["unsupported.", "NotSupportedError"],
  ["device.adapter", "NotSupportedError"],
  ["input.regex", "SyntaxError"],
  ["input.schema", "SyntaxError"],
  ["input.response_format", "SyntaxError"],
  ["store.network", "NetworkError"],
  ["host.gone", "NetworkError"],
];

export function refused(message: string): DOMException {
  return new DOMException(message, "NotSupportedError");
}

/**
 * What the engine threw as the platform's exception, with the engine's error as its `cause`; any other as it is.
 *
 * @param otherwise name of what has none.
 */
export function exceptionOf(error: unknown, otherwise = "UnknownError"): unknown {
  if (!(error instanceof EdgewiseError)) return error;
  const name = NAMES.find(([begin]) => error.code.startsWith(begin))?.[1] ?? otherwise;
  const exception = new DOMException(`${error.message} ${error.remedy}`.trim(), name);
  return Object.defineProperty(exception, "cause", { value: error, configurable: true });
}

interface Quota {
  readonly requested: number;
  readonly quota: number;
}

class OwnQuotaExceededError extends DOMException implements Quota {
  readonly requested: number;
  readonly quota: number;

  constructor(message: string, { requested, quota }: Quota) {
    super(message, "QuotaExceededError");
    this.requested = requested;
    this.quota = quota;
  }
}

/** The browser's own where it has one. */
export function quotaExceeded(requested: number, quota: number): DOMException {
  const message = `The input takes about ${requested} tokens of the context; it has ${quota}.`;
  const native: unknown = Reflect.get(globalThis, "QuotaExceededError");
  const Exceeded =
    typeof native === "function" ? (native as typeof OwnQuotaExceededError) : OwnQuotaExceededError;
  return new Exceeded(message, { requested, quota });
}
