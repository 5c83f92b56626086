/** Files that a person adds to a question: text, and not too much of it. */

import { EdgewiseError } from "../errors.ts";
import { MOST } from "./bounds.ts";
import type { Attachment } from "./files.ts";
import { bytes } from "./format.ts";

const CODE = "chat.file";
const WHAT = "Text can be attached, such as notes, tables or code.";
/** What a name cannot have: control characters, those that turn the direction of text, and marks of code. */
const UNSHOWN = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069`]/gu;

export interface Attached {
  readonly files: readonly Attachment[];
  /** Why others are not among them, in words. */
  readonly problems: readonly string[];
}

/** What files hold, where there is room for so many. */
export async function attached(added: readonly File[], room: number): Promise<Attached> {
  const files: Attachment[] = [];
  const problems: string[] = [];
  for (const file of added) {
    if (files.length === room) {
      problems.push(`A question has at most ${MOST.files} files.`);
      break;
    }
    try {
      files.push(await readAttachment(file));
    } catch (error) {
      const { message, remedy } = EdgewiseError.from(error, CODE, `${nameOf(file)} cannot be read`);
      problems.push(`${message} ${remedy}`.trim());
    }
  }
  return { files, problems };
}

/** @throws EdgewiseError `chat.file` for what is no text in UTF-8, is empty or too large. */
export async function readAttachment(file: File): Promise<Attachment> {
  const name = nameOf(file);
  if (file.size > MOST.fileBytes) {
    const most = bytes(MOST.fileBytes);
    throw new EdgewiseError(
      CODE,
      `${name} has ${bytes(file.size)}; ${most} are the most.`,
      "Attach a part of it.",
    );
  }
  const data = await file.arrayBuffer();
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    throw new EdgewiseError(CODE, `${name} is no text in UTF-8.`, WHAT);
  }
  if (text.includes("\0"))
    throw new EdgewiseError(CODE, `${name} is no text: it has NUL bytes.`, WHAT);
  if (text.trim() === "") throw new EdgewiseError(CODE, `${name} is empty.`, WHAT);
  return { name, text: text.replace(/\r\n?/g, "\n") };
}

function nameOf({ name }: File): string {
  return name.replace(UNSHOWN, "\ufffd").slice(0, MOST.fileName) || "file";
}
