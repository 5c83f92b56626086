/** Reading the settings of a conversation that was kept, or that a file holds. */

import type { ToolDefinition } from "../client/types.ts";
import { MOST, RANGES, within } from "./bounds.ts";
import type { Settings } from "./conversations.ts";
import { isRecord, wrong } from "./reading.ts";

/**
 * The settings. That tools are tools the engine checks where it is given them; here they are bounded.
 *
 * @throws EdgewiseError `chat.conversation`, with the value that is none.
 */
export function readSettings(value: unknown): Settings {
  if (!isRecord(value)) throw wrong("settings", value, "an object");
  const settings: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(value)) {
    if (setting === undefined) continue;
    const of = `settings.${name}`;
    if (isNumeric(name)) settings[name] = readNumber(name, setting, of);
    else if (name === "tools") settings[name] = readTools(setting, of);
    else if (name === "variables") settings[name] = readVariables(setting, of);
    else throw wrong(`settings.${name.slice(0, MOST.id)}`, setting, "known here");
  }
  return settings;
}

function isNumeric(name: string): name is keyof typeof RANGES {
  return Object.hasOwn(RANGES, name);
}

function readNumber(name: keyof typeof RANGES, value: unknown, of: string): number {
  const [low, high, whole] = RANGES[name];
  if (typeof value !== "number" || !within(value, RANGES[name])) {
    throw wrong(of, value, `a ${whole ? "whole " : ""}number from ${low} to ${high}`);
  }
  return value;
}

function readTools(value: unknown, of: string): readonly ToolDefinition[] {
  if (!Array.isArray(value) || value.length > MOST.tools || !isBounded(value)) {
    throw wrong(of, value, `a list of at most ${MOST.tools} tools, ${MOST.json} characters in all`);
  }
  return value as readonly ToolDefinition[];
}

function readVariables(value: unknown, of: string): Readonly<Record<string, unknown>> {
  if (!isRecord(value) || !isBounded(value)) {
    throw wrong(of, value, `an object of at most ${MOST.json} characters`);
  }
  return value;
}

/** As JSON; what is nested too deeply for that is not. */
function isBounded(value: object): boolean {
  try {
    return JSON.stringify(value).length <= MOST.json;
  } catch {
    return false;
  }
}
