import type { Conversation } from "./conversations.ts";

/** The conversations as a JSON text that other programs can read. */
export function exported(conversations: readonly Conversation[]): string {
  return `${JSON.stringify({ version: 1, conversations }, null, 1)}\n`;
}

/** Milliseconds after which a saved file has been read: Safari does that after the click. */
const READ_MS = 60_000;

/** Save a text as a file. */
export function save(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), READ_MS);
}
