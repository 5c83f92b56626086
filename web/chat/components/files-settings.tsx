import { useRef, useState } from "preact/hooks";
import { type Book, listed } from "../book.ts";
import type { Conversation } from "../conversations.ts";
import type { Extent } from "../export.ts";
import { failureOf } from "../failure.ts";
import { Icon } from "./icons.tsx";

interface Props {
  readonly book: Book;
  readonly conversation: Conversation;
  readonly onAdd: (conversations: readonly Conversation[]) => void;
}

/** Conversations as files: saved, and taken in. */
export function FilesSettings({ book, conversation, onAdd }: Props) {
  const chooser = useRef<HTMLInputElement>(null);
  const [told, setTold] = useState("");
  const [failed, setFailed] = useState(false);
  const save = async (conversations: readonly Conversation[], extent: Extent, name: string) => {
    const files = await import("../export.ts");
    files.save(files.exported(conversations, extent), `edgewise-${name}.json`);
  };
  const take = async (file: File) => {
    setTold("Reading the file…");
    setFailed(false);
    try {
      const { imported } = await import("../import.ts");
      const { conversations, here } = await imported(file, book.all);
      onAdd(conversations);
      setTold(summary(conversations.length, here));
    } catch (error) {
      const { message, remedy } = failureOf(error);
      setFailed(true);
      setTold(`${message} ${remedy}`.trim());
    }
  };
  return (
    <>
      <h2>Conversations as files</h2>
      <p class="pair">
        <button
          type="button"
          title="Save this conversation as JSON, with every version of a message"
          disabled={conversation.messages.length === 0}
          onClick={() => void save([conversation], "all", "conversation")}
        >
          <Icon name="download" /> Export this one
        </button>
        <button
          type="button"
          title="Save what is shown of all conversations as JSON"
          onClick={() => void save(listed(book), "shown", "conversations")}
        >
          <Icon name="download" /> Export shown
        </button>
        <button
          type="button"
          title="Save all conversations as JSON, with every version of a message"
          onClick={() => void save(listed(book), "all", "conversations")}
        >
          <Icon name="download" /> Export all
        </button>
        <button
          type="button"
          title="Take in conversations from a file that was exported; those here stay as they are"
          onClick={() => chooser.current?.click()}
        >
          <Icon name="upload" /> Import
        </button>
        <input
          ref={chooser}
          type="file"
          hidden
          accept=".json,application/json"
          data-testid="import"
          onChange={({ currentTarget }) => {
            const [file] = currentTarget.files ?? [];
            if (file) void take(file);
            currentTarget.value = ""; // the same file may be chosen again
          }}
        />
      </p>
      <p class="note" role={failed ? "alert" : "status"} data-testid="imported">
        {told}
      </p>
    </>
  );
}

function summary(added: number, here: number): string {
  const of = (count: number) => `${count} conversation${count === 1 ? "" : "s"}`;
  if (added + here === 0) return "The file has no conversations.";
  return here === 0 ? `${of(added)} imported.` : `${of(added)} imported; ${here} already here.`;
}
