import { useEffect, useRef, useState } from "preact/hooks";
import type { Conversation } from "../conversations.ts";
import { ends } from "../keys.ts";
import { IconButton } from "./icons.tsx";

interface Props {
  readonly conversation: Conversation;
  readonly current: boolean;
  readonly onPick: (id: string) => void;
  readonly onRename: (id: string, title: string) => void;
  readonly onRemove: (id: string) => void;
}

/**
 * A conversation of the list and what can be done with it. It is one stop of the tab key: a toolbar,
 * whose buttons the arrow keys go through.
 */
export function ConversationItem({ conversation, current, onPick, onRename, onRemove }: Props) {
  const { id, title } = conversation;
  const [renaming, setRenaming] = useState(false);
  const bar = useRef<HTMLDivElement>(null);
  const renamed = useRef(false);
  useEffect(() => {
    // A fast key ends the field before this has run for its beginning.
    if (renaming || !renamed.current) return;
    renamed.current = false;
    // A name that was confirmed or given up by a key leaves the focus here.
    bar.current?.querySelector("button")?.focus();
  }, [renaming]);
  if (renaming) {
    return (
      <Rename
        title={title}
        onDone={(value, byKey) => {
          renamed.current = byKey;
          setRenaming(false);
          if (value.trim() !== "" && value.trim() !== title) onRename(id, value.trim());
        }}
      />
    );
  }
  return (
    <li class={current ? "current" : ""}>
      <div class="row" role="toolbar" aria-label={title} ref={bar} onKeyDown={goThrough}>
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
            tabIndex={-1}
            onClick={() => setRenaming(true)}
          />
          <IconButton
            icon="trash"
            label={`Delete “${title}”`}
            class="small"
            tabIndex={-1}
            onClick={({ currentTarget }) => {
              if (currentTarget instanceof Element) focusBeside(currentTarget);
              onRemove(id);
            }}
          />
        </span>
      </div>
    </li>
  );
}

/** Where an arrow key, Home or End leads from a button of a row. */
const WAYS: Readonly<Record<string, (at: number, last: number) => number>> = {
  ArrowRight: (at, last) => Math.min(at + 1, last),
  ArrowLeft: (at) => Math.max(at - 1, 0),
  Home: () => 0,
  End: (_, last) => last,
};

function goThrough(event: KeyboardEvent): void {
  const { currentTarget, target, key } = event;
  const way = WAYS[key];
  if (!way || !(currentTarget instanceof Element) || !(target instanceof HTMLButtonElement)) return;
  const buttons = [...currentTarget.querySelectorAll("button")];
  const at = buttons.indexOf(target);
  event.preventDefault();
  buttons[way(at, buttons.length - 1)]?.focus();
}

/** The focus goes to the next conversation, or the one before, or to what begins a new one. */
function focusBeside(within: Element): void {
  const item = within.closest("li");
  const beside = item?.nextElementSibling ?? item?.previousElementSibling;
  const nav = within.closest("nav");
  (beside ?? nav)?.querySelector<HTMLElement>(beside ? ".title" : ".new")?.focus();
}

interface RenameProps {
  readonly title: string;
  readonly onDone: (title: string, byKey: boolean) => void;
}

function Rename({ title, onDone }: RenameProps) {
  const input = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  useEffect(() => input.current?.select(), []);
  const finish = (value: string, byKey: boolean) => {
    // What is done by a key takes the field away, which then loses the focus.
    if (!over.current) onDone(value, byKey);
    over.current = true;
  };
  return (
    <li>
      <input
        ref={input}
        class="rename"
        aria-label="Title"
        defaultValue={title}
        maxLength={80}
        onBlur={(event) => finish(event.currentTarget.value, false)}
        onKeyDown={(event) => {
          if (ends(event)) finish(event.currentTarget.value, true);
          if (event.key !== "Escape") return;
          event.stopPropagation();
          finish(title, true);
        }}
      />
    </li>
  );
}
