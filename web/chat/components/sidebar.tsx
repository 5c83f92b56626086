import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Book, listed } from "../book.ts";
import type { Conversation } from "../conversations.ts";
import { Icon, IconButton } from "./icons.tsx";

interface Props {
  readonly book: Book;
  /** Whether it is shown over the page, where there is no room beside it. */
  readonly open: boolean;
  readonly onClose: () => void;
  readonly onNew: () => void;
  readonly onPick: (id: string) => void;
  readonly onRename: (id: string, title: string) => void;
  readonly onRemove: (id: string) => void;
}

/** All conversations of this browser. On a phone it slides over the page. */
export const Sidebar = memo(function Sidebar(props: Props) {
  const { book, open, onClose } = props;
  const conversations = useMemo(() => listed(book), [book]);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    if (open) panel.current?.querySelector("button")?.focus();
  }, [open]);
  return (
    <>
      {open && <div class="shade" onClick={onClose} aria-hidden="true" />}
      <nav
        ref={panel}
        id="conversations"
        class={open ? "sidebar open" : "sidebar"}
        aria-label="Conversations"
        onKeyDown={(event) => {
          if (event.key === "Escape" && open) onClose();
        }}
      >
        <p class="brand">
          <img src="/icon.svg" alt="" width="24" height="24" /> edgewise
        </p>
        <button type="button" class="new" data-testid="new-conversation" onClick={props.onNew}>
          <Icon name="plus" /> New conversation
        </button>
        <ul>
          {conversations.map((conversation) => (
            <Item
              key={conversation.id}
              conversation={conversation}
              current={conversation.id === book.current}
              onPick={props.onPick}
              onRename={props.onRename}
              onRemove={props.onRemove}
            />
          ))}
        </ul>
        <p class="note">Conversations stay in this browser.</p>
      </nav>
    </>
  );
});

interface ItemProps extends Pick<Props, "onPick" | "onRename" | "onRemove"> {
  readonly conversation: Conversation;
  readonly current: boolean;
}

function Item({ conversation, current, onPick, onRename, onRemove }: ItemProps) {
  const { id, title } = conversation;
  const [renaming, setRenaming] = useState(false);
  if (renaming) {
    return (
      <Rename
        title={title}
        onDone={(value) => {
          setRenaming(false);
          if (value.trim() !== "" && value.trim() !== title) onRename(id, value.trim());
        }}
      />
    );
  }
  return (
    <li class={current ? "current" : ""}>
      <button
        type="button"
        class="title"
        data-testid="conversation"
        aria-current={current ? "true" : undefined}
        title={title}
        onClick={() => onPick(id)}
      >
        {title}
      </button>
      <span class="tools">
        <IconButton
          icon="pencil"
          label={`Rename “${title}”`}
          class="small"
          onClick={() => setRenaming(true)}
        />
        <IconButton
          icon="trash"
          label={`Delete “${title}”`}
          class="small"
          onClick={() => onRemove(id)}
        />
      </span>
    </li>
  );
}

function Rename({
  title,
  onDone,
}: {
  readonly title: string;
  readonly onDone: (title: string) => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  return (
    <li>
      <input
        ref={input}
        class="rename"
        aria-label="Title"
        defaultValue={title}
        maxLength={80}
        onBlur={(event) => onDone(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") event.currentTarget.blur();
          if (event.key !== "Escape") return;
          event.stopPropagation();
          onDone(title);
        }}
      />
    </li>
  );
}
