/** Conversations from a file, which anybody may have written. */

import { EdgewiseError, shorten } from "../errors.ts";
import { countValues } from "../format/json.ts";
import { MOST } from "./bounds.ts";
import type { Conversation } from "./conversations.ts";
import { bytes } from "./format.ts";
import { newId } from "./ids.ts";
import { isRecord } from "./reading.ts";
import { readConversation } from "./stored.ts";
import { readTools } from "./tools.ts";

export interface Imported {
  /** What is new; all that a file has, or nothing. */
  readonly conversations: readonly Conversation[];
  /** How many of the file's are here already. */
  readonly here: number;
}

const CODE = "chat.import";
const REMEDY = "Nothing was imported. Choose a file that Export has saved.";
const VERSIONS: readonly unknown[] = [1, 2];

/**
 * The conversations of a file that `exported` wrote.
 *
 * @param known those that are here: they stay as they are, one that differs gets an id of its own.
 * @throws EdgewiseError `chat.import` with what of the file is none, and where.
 */
export async function imported(
  file: Blob,
  known: readonly Conversation[],
  now = Date.now(),
): Promise<Imported> {
  if (file.size > MOST.file) {
    throw refused(`The file has ${bytes(file.size)}; at most ${bytes(MOST.file)} are read.`);
  }
  const listed = listOf(parsed(new Uint8Array(await file.arrayBuffer())));
  const here = new Map(known.map((one) => [one.id, one]));
  const conversations: Conversation[] = [];
  let held = 0;
  for (const [at, given] of listed.entries()) {
    const read = readOne(given, `Conversation ${at + 1} of ${listed.length}`);
    const same = here.get(read.id);
    if (read.messages.length === 0) continue;
    if (same && holds(same, read)) {
      held += 1;
      continue;
    }
    // What would be the newest for ever was changed now.
    const one = { ...read, ...(same && { id: newId() }), updated: Math.min(read.updated, now) };
    here.set(one.id, one);
    conversations.push(one);
  }
  return { conversations, here: held };
}

function parsed(data: Uint8Array): unknown {
  const values = countValues(data);
  if (values > MOST.values) {
    throw refused(
      `The file has ${values} lists, objects and commas; at most ${MOST.values} are read.`,
    );
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    throw refused("The file is no text in UTF-8.");
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw EdgewiseError.from(error, CODE, "The file is no JSON", REMEDY);
  }
}

function listOf(value: unknown): readonly unknown[] {
  if (!isRecord(value) || !Array.isArray(value.conversations)) {
    throw refused(`The file has no list of conversations: it is ${shorten(value)}.`);
  }
  const { version, conversations } = value;
  if (!VERSIONS.includes(version)) {
    throw refused(
      `The file's version is ${shorten(version)}; ${VERSIONS.join(" and ")} are known.`,
    );
  }
  const { length } = conversations;
  if (length > MOST.conversations) {
    throw refused(`The file has ${length} conversations; ${MOST.conversations} are the most.`);
  }
  return conversations;
}

/** Without what its answers were cut off at: tokens go to the engine as they are. */
function readOne(value: unknown, which: string): Conversation {
  try {
    const read = readConversation(value);
    const messages = read.messages.map(({ cut: _, ...message }) => message);
    const { tools } = read.settings;
    const checked = tools ? readTools(JSON.stringify(tools)) : { tools: null };
    if ("problem" in checked) throw refused(`settings.tools: ${checked.problem}`);
    return { ...read, messages };
  } catch (error) {
    const { message } = EdgewiseError.from(error, CODE, "It cannot be read");
    const title = isRecord(value) && value.title !== undefined ? ` (${shorten(value.title)})` : "";
    throw refused(`${which}${title}: ${message}`);
  }
}

/** Whether a conversation has all that another one says. */
function holds(whole: Conversation, part: Conversation): boolean {
  const said = new Map(whole.messages.map(({ id, content }) => [id, content]));
  return part.messages.every(({ id, content }) => said.get(id) === content);
}

function refused(message: string): EdgewiseError {
  return new EdgewiseError(CODE, message, REMEDY);
}
