import { useEffect, useRef, useState } from "preact/hooks";

interface Props {
  readonly ready: boolean;
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
  useEffect(() => area.current?.focus(), [conversation, ready]);
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
        ref={area}
        data-testid="prompt"
        aria-label="Message"
        placeholder={ready ? "Write a message" : "Load a model to begin"}
        rows={1}
        value={text}
        maxLength={200_000}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape" && busy) onStop();
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      {busy ? (
        <button type="button" class="primary" data-testid="stop" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button
          type="submit"
          class="primary"
          data-testid="send"
          disabled={!ready || text.trim() === ""}
        >
          Send
        </button>
      )}
    </form>
  );
}
