import { EdgewiseError } from "../errors.ts";

/** What an error tells a person. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
}

export function failureOf(error: unknown): Failure {
  const { code, message, remedy } = EdgewiseError.from(error, "internal", "Something went wrong");
  return { code, message, remedy };
}
