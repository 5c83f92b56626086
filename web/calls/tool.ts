/** A tool as its calls are written. As in Python's `calls/tool.py`. */

/** A tool that may be called. */
export interface CalledTool {
  readonly name: string;
  /** The JSON schema of its arguments. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** Of the names of its rules in a grammar. */
  readonly prefix: string;
}
