import { useEffect, useRef, useState } from "preact/hooks";
import { ends } from "../keys.ts";
import { Icon, IconButton } from "./icons.tsx";

interface Props {
  /** Whether a model is there to answer. */
  readonly ready: boolean;
  /** Whether it is answering just now. */
  readonly busy: boolean;
  readonly conversation: string;
  readonly onSend: (text: string) => void;
  readonly onStop: () => void;
}

const MAX_HEIGHT = 240; // pixels

/** Where a message is written. Enter sends, Shift+Enter begins a line, Escape stops the answer. */
export function Composer({ ready, busy, conversation, onSend, onStop }: Props) {
  const [text, setText] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => focusUnlessBusyElsewhere(area.current), [conversation, ready]);
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [text]);
  const send = () => {
    if (!ready || busy || text.trim() === "") return;
    onSend(text.trim());
    setText("");
    area.current?.focus();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
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
          disabled={!ready || text.trim() === ""}
        >
          <Icon name="send" />
        </button>
      )}
    </form>
  );
}

/** A phone's keyboard would cover half of the page, and a person may be somewhere else on purpose. */
function focusUnlessBusyElsewhere(area: HTMLTextAreaElement | null): void {
  const elsewhere = document.activeElement?.matches("input, textarea, select") ?? false;
  if (!elsewhere && matchMedia("(pointer: fine)").matches) area?.focus();
}
