import { shownOf } from "./branches.ts";
import type { Conversation } from "./conversations.ts";

/** What of conversations: the branches that are shown, or all that was ever written. */
export type Extent = "shown" | "all";

/** The conversations as a JSON text that other programs can read. */
export function exported(conversations: readonly Conversation[], extent: Extent): string {
  const written = conversations.map((conversation) => ({
    ...conversation,
    messages: (extent === "all" ? conversation.messages : shownOf(conversation)).map(
      ({ cut: _, ...message }) => message, // tokens mean something to this page only
    ),
  }));
  return `${JSON.stringify({ version: 2, conversations: written }, null, 1)}\n`;
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
