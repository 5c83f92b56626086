/** Whether a model may, must or may not call a tool, and which. */

import { EdgewiseError, shorten } from "../errors.ts";
import { isTable } from "./plain.ts";

const MODES = ["auto", "none", "required"] as const;
type Mode = (typeof MODES)[number];

/** Which tools an answer may call. */
export interface ToolChoice {
  /**
   * `auto` lets the model decide, `none` lets it call none, `required` makes it call one or several, `named`
   * makes it call one.
   */
  readonly mode: Mode | "named";
  /** Of the tool that it has to call; null but with `named`. */
  readonly name: string | null;
}

/**
 * Read and check the option `toolChoice`: `auto`, `none`, `required`, or
 * `{ type: "function", function: { name } }`; left out it is `auto` where there are tools, and else `none`.
 *
 * @param tools those there are.
 * @throws EdgewiseError `input.tool_choice`.
 */
export function toolChoiceOf(
  value: unknown,
  tools: readonly { readonly name: string }[] | null,
): ToolChoice {
  const known = (tools ?? []).map(({ name }) => name);
  if (value === null || value === undefined) {
    return { mode: known.length > 0 ? "auto" : "none", name: null };
  }
  const mode = MODES.find((one) => one === value);
  if (mode) {
    if (mode === "required" && known.length === 0) {
      throw wrong("A call is required, but there are no tools to call.", "Pass tools.");
    }
    return { mode, name: null };
  }
  const name = named(value);
  if (!known.includes(name)) {
    throw wrong(
      `toolChoice names the tool ${shorten(name)}, which is not there.`,
      `There are: ${known.slice(0, 20).join(", ") || "none"}.`,
    );
  }
  return { mode: "named", name };
}

/** The name of the tool that has to be called. */
function named(value: unknown): string {
  if (isTable(value) && value.type === "function" && isTable(value.function)) {
    const { name } = value.function;
    if (typeof name === "string") return name;
  }
  throw wrong(
    `toolChoice is ${shorten(value)}; it must be one of ${MODES.join(", ")}, or name a tool.`,
    'A tool is named by {"type": "function", "function": {"name": "..."}}.',
  );
}

function wrong(message: string, remedy: string): EdgewiseError {
  return new EdgewiseError("input.tool_choice", message, remedy);
}
