import { useState } from "preact/hooks";
import type { Conversation } from "../conversations.ts";

interface Props {
  readonly conversations: readonly Conversation[];
  readonly current: string;
  readonly open: boolean;
  readonly onClose: () => void;
  readonly onNew: () => void;
  readonly onPick: (id: string) => void;
  readonly onRename: (id: string, title: string) => void;
  readonly onRemove: (id: string) => void;
  readonly onExport: () => void;
}

/** All conversations of this browser. On a phone it slides over the page. */
export function Sidebar(props: Props) {
  return (
    <>
      {props.open && <div class="shade" onClick={props.onClose} aria-hidden="true" />}
      <nav class={props.open ? "sidebar open" : "sidebar"} aria-label="Conversations">
        <button
          type="button"
          class="primary wide"
          data-testid="new-conversation"
          onClick={props.onNew}
        >
          New conversation
        </button>
        <ul>
          {props.conversations.map((conversation) => (
            <Item key={conversation.id} {...props} conversation={conversation} />
          ))}
        </ul>
        <p class="note">
          Conversations stay in this browser.{" "}
          <button type="button" class="link" onClick={props.onExport}>
            Export
          </button>
        </p>
      </nav>
    </>
  );
}

function Item(props: Props & { readonly conversation: Conversation }) {
  const { conversation, current } = props;
  const { id, title } = conversation;
  const [renaming, setRenaming] = useState(false);
  const rename = (value: string) => {
    setRenaming(false);
    if (value.trim() !== "") props.onRename(id, value.trim());
  };
  if (renaming) {
    return (
      <li>
        <input
          class="rename"
          aria-label="Title"
          value={title}
          maxLength={80}
          ref={(input) => input?.focus()}
          onBlur={(event) => rename(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") event.currentTarget.blur();
            if (event.key === "Escape") setRenaming(false);
          }}
        />
      </li>
    );
  }
  return (
    <li class={id === current ? "current" : ""}>
      <button
        type="button"
        class="title"
        data-testid="conversation"
        aria-current={id === current ? "true" : undefined}
        onClick={() => props.onPick(id)}
      >
        {title}
      </button>
      <button
        type="button"
        class="icon small"
        aria-label={`Rename ${title}`}
        onClick={() => setRenaming(true)}
      >
        ✎
      </button>
      <button
        type="button"
        class="icon small"
        aria-label={`Delete ${title}`}
        onClick={() => props.onRemove(id)}
      >
        ×
      </button>
    </li>
  );
}
