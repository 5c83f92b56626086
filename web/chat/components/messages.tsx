import { Fragment } from "preact";
import { shownOf, versionsOf } from "../branches.ts";
import type { Writing } from "../chat-state.ts";
import { type Conversation, forgotten, turnStart } from "../conversations.ts";
import { type Answers, canGoOn, isFull } from "../going-on.ts";
import { MessageView } from "./message.tsx";

interface Props {
  readonly conversation: Conversation;
  readonly writing: Writing | undefined;
  /** What would answer; null where nothing is loaded. */
  readonly engine: Answers | null;
  readonly onEdit: (id: string, content: string) => void;
  readonly onRegenerate: () => void;
  readonly onGoOn: () => void;
  readonly onTurn: (id: string, step: number) => void;
}

/** The branch of a conversation that is shown, and where what the model reads of it begins. */
export function Messages({ conversation, writing, engine, ...acts }: Props) {
  const messages = shownOf(conversation, writing?.message);
  const versions = versionsOf(conversation.messages, messages);
  const begins = turnStart(messages, forgotten(messages, engine?.info.context ?? null));
  const idle = engine !== null && writing === undefined;
  const said = messages.map((message, i) => (
    // Versions of a message take each other's place: what has the focus there keeps it.
    <Fragment key={message.parent ?? conversation.id}>
      {begins > 0 && i === begins && (
        <p class="begins" data-testid="begins">
          The context is full: the model no longer reads what is above.
        </p>
      )}
      <MessageView
        message={message}
        streaming={writing?.message.id === message.id}
        idle={idle}
        last={i === messages.length - 1}
        at={versions[i]?.at ?? 1}
        of={versions[i]?.of ?? 1}
        turning={writing === undefined}
        cut={i === messages.length - 1 && idle && canGoOn(messages, engine)}
        {...acts}
      />
    </Fragment>
  ));
  return (
    <>
      {said}
      {idle && isFull(messages, engine) && (
        <p class="note" data-testid="full">
          This answer fills the context, so it cannot go on. Ask something else, or load the model
          with a larger context.
        </p>
      )}
    </>
  );
}
