/**
 * An error a person can act on: what happened, with the offending value, and what to do.
 *
 * `code` is stable and has two parts, such as `bundle.checksum`; the same codes mean the same in
 * Python (`edgewise_runtime.errors`).
 */
export class EdgewiseError extends Error {
  override readonly name = "EdgewiseError";

  constructor(
    readonly code: string,
    message: string,
    readonly remedy = "",
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** What structured clones and JSON keep of it; `fromJson` gives an equal error back. */
  toJson(): ErrorJson {
    return { code: this.code, message: this.message, remedy: this.remedy };
  }

  static fromJson(json: ErrorJson): EdgewiseError {
    return new EdgewiseError(json.code, json.message, json.remedy);
  }

  /** `cause` itself where it is an EdgewiseError, otherwise one with `code` that quotes it. */
  static from(cause: unknown, code: string, doing: string, remedy = ""): EdgewiseError {
    if (cause instanceof EdgewiseError) return cause;
    const said = cause instanceof Error ? cause.message : String(cause);
    return new EdgewiseError(code, `${doing}: ${said}`, remedy, { cause });
  }
}

export interface ErrorJson {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
}

/** The value as an error message quotes it: at most 80 characters. */
export function shorten(value: unknown): string {
  let text: string;
  try {
    text = typeof value === "string" ? JSON.stringify(value) : String(JSON.stringify(value));
  } catch {
    text = `<${typeof value}>`;
  }
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}
