/** Tools as a person writes them down. */

import type { ToolDefinition } from "../client/types.ts";
import { toolsOf } from "../engine/tools.ts";
import { EdgewiseError } from "../errors.ts";

/** What a text says; null for no tools. */
export type ReadTools =
  | { readonly tools: readonly ToolDefinition[] | null }
  | { readonly problem: string };

/** Read a list of JSON schemas, or one of them. */
export function readTools(text: string): ReadTools {
  if (text.trim() === "") return { tools: null };
  try {
    const given: unknown = JSON.parse(text);
    const tools = toolsOf(Array.isArray(given) ? given : [given]) ?? [];
    const described = tools.map((tool) => tool.described as unknown as ToolDefinition);
    return { tools: described.length > 0 ? described : null };
  } catch (error) {
    if (error instanceof EdgewiseError)
      return { problem: `${error.message} ${error.remedy}`.trim() };
    return { problem: "This is no JSON yet." };
  }
}
