import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { copy, TOLD_MS } from "../clipboard.ts";
import type { ChatMessage } from "../conversations.ts";
import { answerDetails } from "../format.ts";
import { ends } from "../keys.ts";
import { lazy, useLazy } from "../lazy.ts";
import { AnswerText } from "./answer-text.tsx";
import { Icon, IconButton } from "./icons.tsx";
import { Versions } from "./versions.tsx";

const messageFiles = lazy(async () => (await import("./message-files.tsx")).MessageFiles);

interface Props {
  readonly message: ChatMessage;
  /** Whether the answer is being written. */
  readonly streaming: boolean;
  /** Whether questions may be asked. */
  readonly idle: boolean;
  readonly last: boolean;
  /** Which version of the message it is, counted from 1, and of how many. */
  readonly at: number;
  readonly of: number;
  /** Whether other versions may be shown: not while an answer is written. */
  readonly turning: boolean;
  /** Whether the length limit cut it off, and the model can go on with it. */
  readonly cut: boolean;
  readonly onEdit: (id: string, content: string) => void;
  readonly onRegenerate: () => void;
  readonly onGoOn: () => void;
  readonly onTurn: (id: string, step: number) => void;
}

/** One message. Those that do not change are not rendered again. */
export const MessageView = memo(function MessageView(props: Props) {
  return props.message.role === "user" ? <Question {...props} /> : <Answer {...props} />;
});

function Question(props: Props) {
  const { message, idle, last, onEdit, onRegenerate } = props;
  const { content, files = [] } = message;
  const [editing, setEditing] = useState(false);
  const MessageFiles = useLazy(messageFiles, files.length > 0);
  if (editing) {
    return (
      <Editor
        text={content}
        optional={files.length > 0}
        onSend={(text) => {
          setEditing(false);
          onEdit(message.id, text);
        }}
        onCancel={() => setEditing(false)}
      />
    );
  }
  return (
    <article
      class="message user"
      id={`said-${message.id}`}
      data-testid="user-message"
      aria-label="You"
    >
      {MessageFiles && <MessageFiles files={files} />}
      {content !== "" && (
        <p class="text" dir="auto">
          {content}
        </p>
      )}
      <div class="actions">
        <Turner {...props} />
        <IconButton
          icon="pencil"
          label="Edit"
          class="small"
          testid="edit"
          disabled={!idle}
          onClick={() => setEditing(true)}
        />
        {last && idle && (
          <button type="button" class="quiet" data-testid="regenerate" onClick={onRegenerate}>
            <Icon name="again" /> Answer
          </button>
        )}
      </div>
    </article>
  );
}

interface EditorProps {
  readonly text: string;
  /** Whether it may be empty: files stay with the question. */
  readonly optional: boolean;
  readonly onSend: (text: string) => void;
  readonly onCancel: () => void;
}

function Editor({ text, optional, onSend, onCancel }: EditorProps) {
  const [draft, setDraft] = useState(text);
  const send = () => {
    if (optional || draft.trim() !== "") onSend(draft.trim());
  };
  return (
    <article class="message user editing" aria-label="You, editing">
      <textarea
        aria-label="Edit your message"
        dir="auto"
        value={draft}
        rows={Math.min(10, draft.split("\n").length + 1)}
        ref={focusOnce}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel();
          if (ends(event)) {
            event.preventDefault();
            send();
          }
        }}
      />
      <div class="buttons">
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="button" class="primary" onClick={send}>
          Send again
        </button>
      </div>
    </article>
  );
}

function focusOnce(area: HTMLTextAreaElement | null): void {
  if (!area || document.activeElement === area) return;
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}

function Answer(props: Props) {
  const { message, streaming, idle, last, onRegenerate } = props;
  const { content, stats } = message;
  return (
    <article
      class={streaming ? "message assistant streaming" : "message assistant"}
      id={`said-${message.id}`}
      data-testid="assistant-message"
      aria-label="Model"
      aria-busy={streaming}
    >
      {isBlank(message) && streaming ? (
        <p class="waiting">Reading the conversation…</p>
      ) : (
        <AnswerText message={message} growing={streaming} />
      )}
      {!streaming && (
        <div class="actions">
          <Turner {...props} />
          <CopyButton text={content} />
          {last && (
            <IconButton
              icon="again"
              label="Regenerate"
              class="small"
              testid="regenerate"
              disabled={!idle}
              onClick={onRegenerate}
            />
          )}
          {last && props.cut && (
            <button
              type="button"
              class="quiet"
              data-testid="continue"
              disabled={!idle}
              onClick={props.onGoOn}
            >
              <Icon name="onward" /> Continue
            </button>
          )}
          <span class="stats" data-testid={stats ? "stats" : undefined}>
            {stats ? answerDetails(stats) : "interrupted"}
          </span>
        </div>
      )}
    </article>
  );
}

function isBlank({ content, thought, calls }: ChatMessage): boolean {
  return content === "" && !thought && !calls?.length;
}

function Turner({ message, at, of, turning, onTurn }: Props) {
  return (
    <Versions at={at} of={of} disabled={!turning} onTurn={(step) => onTurn(message.id, step)} />
  );
}

function CopyButton({ text }: { readonly text: string }) {
  const [told, setTold] = useState<boolean | null>(null);
  return (
    <IconButton
      icon={told ? "check" : "copy"}
      label={told === null ? "Copy" : told ? "Copied" : "Copying is not allowed"}
      class="small"
      onClick={() =>
        void copy(text).then((allowed) => {
          setTold(allowed);
          setTimeout(() => setTold(null), TOLD_MS);
        })
      }
    />
  );
}
