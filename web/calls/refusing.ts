/** What no grammar of calls is made of. As in Python's `calls/refusing.py`. */

import { EdgewiseError } from "../errors.ts";

/** The error for a tool whose calls cannot be forced. */
export function refused(message: string): EdgewiseError {
  return new EdgewiseError(
    "unsupported.tool_choice",
    message,
    "Change the tool's schema, or name another format of calls.",
  );
}
