import { memo } from "preact/compat";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Book, listed } from "../book.ts";
import { ConversationItem } from "./conversation-item.tsx";
import { Icon } from "./icons.tsx";

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
            <ConversationItem
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
