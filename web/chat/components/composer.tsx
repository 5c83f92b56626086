import { useEffect, useRef, useState } from "preact/hooks";
import { MOST } from "../bounds.ts";
import { useDrops } from "../drops.ts";
import type { Attachment } from "../files.ts";
import { useStable } from "../hooks.ts";
import { ends } from "../keys.ts";
import { lazy, useLazy } from "../lazy.ts";
import type { Measured } from "../measure.ts";
import { Icon, IconButton } from "./icons.tsx";

interface Props {
  /** Whether a model is there to answer. */
  readonly ready: boolean;
  /** Whether it is answering just now. */
  readonly busy: boolean;
  readonly conversation: string;
  /** Counts tokens of a question; null where no model is there to do so. */
  readonly measure: ((text: string, files: readonly Attachment[]) => Promise<Measured>) | null;
  readonly onSend: (text: string, files: readonly Attachment[]) => void;
  readonly onStop: () => void;
}

const attachments = lazy(async () => (await import("./attachments.tsx")).Attachments);
const NONE: readonly Attachment[] = [];
const MAX_HEIGHT = 240; // pixels

/** Where a message is written. Enter sends, Shift+Enter begins a line, Escape stops the answer. */
export function Composer({ ready, busy, conversation, measure, onSend, onStop }: Props) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState<readonly Attachment[]>(NONE);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [fits, setFits] = useState(true);
  const chooser = useRef<HTMLInputElement>(null);
  const Attachments = useLazy(attachments, files.length + problems.length > 0);
  const add = useStable(async (chosen: readonly File[]) => {
    const { attached } = await import("../attach.ts");
    const found = await attached(chosen, MOST.files - files.length);
    setFiles((before) => [...before, ...found.files].slice(0, MOST.files));
    setProblems(found.problems);
    area.current?.focus();
  });
  const dropping = useDrops(add);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => focusUnlessBusyElsewhere(area.current), [conversation, ready]);
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [text]);
  const sendable = ready && (files.length === 0 ? text.trim() !== "" : fits);
  const send = () => {
    if (!sendable || busy) return;
    onSend(text.trim(), files);
    setText("");
    setFiles(NONE);
    setProblems([]);
    setFits(true);
    area.current?.focus();
  };
  const form = (
    <form
      class={dropping ? "composer dropping" : "composer"}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <IconButton
        icon="attach"
        label="Attach text files"
        testid="attach"
        onClick={() => chooser.current?.click()}
      />
      <input
        ref={chooser}
        type="file"
        multiple
        hidden
        data-testid="files"
        onChange={({ currentTarget }) => {
          void add([...(currentTarget.files ?? [])]);
          currentTarget.value = ""; // the same file may be chosen again
        }}
      />
      <textarea
        id="message"
        ref={area}
        data-testid="prompt"
        aria-label="Message"
        placeholder={ready ? "Write a message" : "Load a model to begin"}
        rows={1}
        value={text}
        maxLength={200_000}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (ends(event)) {
            event.preventDefault();
            send();
          }
        }}
      />
      {busy ? (
        <IconButton
          key="stop"
          icon="stop"
          label="Stop"
          class="primary stop"
          testid="stop"
          onClick={() => {
            onStop();
            area.current?.focus();
          }}
        />
      ) : (
        <button
          key="send"
          type="submit"
          class="icon primary"
          aria-label="Send"
          title="Send"
          data-testid="send"
          disabled={!sendable}
        >
          <Icon name="send" />
        </button>
      )}
    </form>
  );
  return (
    <>
      {Attachments && (
        <Attachments
          files={files}
          problems={problems}
          text={text}
          measure={measure}
          onRemove={(at) => {
            setFiles((before) => before.filter((_, i) => i !== at));
            setProblems([]);
          }}
          onFits={setFits}
        />
      )}
      {form}
    </>
  );
}

/** A phone's keyboard would cover half of the page, and a person may be somewhere else on purpose. */
function focusUnlessBusyElsewhere(area: HTMLTextAreaElement | null): void {
  const elsewhere = document.activeElement?.matches("input, textarea, select") ?? false;
  if (!elsewhere && matchMedia("(pointer: fine)").matches) area?.focus();
}
