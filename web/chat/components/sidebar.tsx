import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Book, listed } from "../book.ts";
import { lazy, useLazy } from "../lazy.ts";
import { ConversationItem } from "./conversation-item.tsx";
import { Icon } from "./icons.tsx";

const searchHits = lazy(async () => (await import("./search-hits.tsx")).SearchHits);

interface Props {
  readonly book: Book;
  /** Whether it is shown over the page, where there is no room beside it. */
  readonly open: boolean;
  readonly onClose: () => void;
  readonly onNew: () => void;
  readonly onPick: (id: string) => void;
  /** Shows a message of a conversation, or what is shown of it. */
  readonly onFind: (id: string, message: string | null) => void;
  readonly onRename: (id: string, title: string) => void;
  readonly onRemove: (id: string) => void;
}

/** All conversations of this browser. On a phone it slides over the page. */
export const Sidebar = memo(function Sidebar(props: Props) {
  const { book, open, onClose } = props;
  const conversations = useMemo(() => listed(book), [book]);
  const [query, setQuery] = useState("");
  const searching = query.trim() !== "";
  const SearchHits = useLazy(searchHits, searching);
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
          if (event.key !== "Escape") return;
          if (searching) {
            setQuery("");
            panel.current?.querySelector<HTMLElement>("input[type=search]")?.focus();
          } else if (open) onClose();
        }}
      >
        <p class="brand">
          <img src="/icon.svg" alt="" width="24" height="24" /> edgewise
        </p>
        <button type="button" class="new" data-testid="new-conversation" onClick={props.onNew}>
          <Icon name="plus" /> New conversation
        </button>
        {conversations.length > 0 && (
          <input
            type="search"
            data-testid="search"
            aria-label="Search conversations"
            placeholder="Search"
            maxLength={200}
            value={query}
            onInput={(event) => setQuery(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown")
                panel.current?.querySelector<HTMLElement>(".hit, .title")?.focus();
            }}
          />
        )}
        {searching && SearchHits ? (
          <SearchHits book={book} query={query} onPick={props.onFind} />
        ) : (
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
        )}
        <p class="note">Conversations stay in this browser.</p>
      </nav>
    </>
  );
});
