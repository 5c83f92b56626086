import type { ChatMessage } from "../conversations.ts";
import { parted } from "../thoughts.ts";
import { MarkdownView } from "./markdown-view.tsx";
import { Thought } from "./thought.tsx";

interface Props {
  readonly message: ChatMessage;
  /** Whether more of it comes. */
  readonly growing: boolean;
}

/** What a model wrote: what it said, under what it thought. */
export function AnswerText({ message: { content, thoughtMs }, growing }: Props) {
  const { thought, thinking, text } = parted(content);
  const thoughtful = thought !== "" || (thinking && growing);
  return (
    <>
      {thoughtful && <Thought thought={thought} growing={thinking && growing} took={thoughtMs} />}
      {thinking && !growing ? (
        <p class="note">It ended before the model was done thinking.</p>
      ) : (
        <MarkdownView text={text} growing={growing} />
      )}
    </>
  );
}
