import { memo } from "preact/compat";
import { useMemo, useState } from "preact/hooks";
import type { AnswerStats, ChatMessage } from "../conversations.ts";
import { duration, rate } from "../format.ts";
import { toHtml } from "../markdown.ts";

interface Props {
  readonly message: ChatMessage;
  readonly streaming: boolean;
  readonly busy: boolean;
  readonly last: boolean;
  readonly onEdit: (id: string, content: string) => void;
  readonly onRegenerate: (id: string) => void;
}

/** One message. Only the one that grows is rendered again. */
export const MessageView = memo(function MessageView(props: Props) {
  return props.message.role === "user" ? <Question {...props} /> : <Answer {...props} />;
});

function Question({ message, busy, onEdit }: Props) {
  const [draft, setDraft] = useState<string | null>(null);
  if (draft !== null) {
    const send = () => {
      if (draft.trim() === "") return;
      setDraft(null);
      onEdit(message.id, draft.trim());
    };
    return (
      <article class="message user" aria-label="You, editing">
        <textarea
          aria-label="Edit your message"
          value={draft}
          rows={Math.min(10, draft.split("\n").length + 1)}
          ref={focus}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setDraft(null);
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              send();
            }
          }}
        />
        <p class="actions">
          <button type="button" class="primary" onClick={send}>
            Send again
          </button>
          <button type="button" onClick={() => setDraft(null)}>
            Cancel
          </button>
        </p>
      </article>
    );
  }
  return (
    <article class="message user" data-testid="user-message" aria-label="You">
      <p class="text">{message.content}</p>
      <p class="actions">
        <button
          type="button"
          class="link"
          data-testid="edit"
          disabled={busy}
          onClick={() => setDraft(message.content)}
        >
          Edit
        </button>
      </p>
    </article>
  );
}

function focus(area: HTMLTextAreaElement | null): void {
  if (document.activeElement !== area) area?.focus();
}

function Answer({ message, streaming, busy, last, onRegenerate }: Props) {
  const html = useMemo(() => toHtml(message.content), [message.content]);
  return (
    <article
      class="message assistant"
      data-testid="assistant-message"
      aria-label="Model"
      aria-busy={streaming}
    >
      {message.content === "" && streaming ? (
        <p class="waiting">Reading the prompt…</p>
      ) : (
        <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />
      )}
      {!streaming && (
        <p class="actions">
          {message.stats && <Stats stats={message.stats} />}
          <button
            type="button"
            class="link"
            onClick={() => void navigator.clipboard.writeText(message.content)}
          >
            Copy
          </button>
          {last && (
            <button
              type="button"
              class="link"
              data-testid="regenerate"
              disabled={busy}
              onClick={() => onRegenerate(message.id)}
            >
              Regenerate
            </button>
          )}
        </p>
      )}
    </article>
  );
}

function Stats({ stats }: { readonly stats: AnswerStats }) {
  const parts = [
    rate(stats.tokensPerSecond),
    `first token ${duration(stats.ttftMs)}`,
    stats.cachedTokens > 0
      ? `${stats.cachedTokens} of ${stats.promptTokens} prompt tokens cached`
      : `${stats.promptTokens} prompt tokens`,
    ...(stats.finish === "length" ? ["ended at the length limit"] : []),
    ...(stats.finish === "cancelled" ? ["stopped"] : []),
  ];
  return (
    <span class="stats" data-testid="stats">
      {parts.join(" · ")}
    </span>
  );
}
