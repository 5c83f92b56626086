import type { ChatMessage } from "../conversations.ts";
import { MarkdownView } from "./markdown-view.tsx";
import { Thought } from "./thought.tsx";
import { ToolCalls } from "./tool-calls.tsx";

interface Props {
  readonly message: ChatMessage;
  /** Whether more of it comes. */
  readonly growing: boolean;
}

/** What a model wrote: what it said, between what it thought and what it calls. */
export function AnswerText({ message, growing }: Props) {
  const { content, thought = "", thoughtMs, calls = [] } = message;
  const thinking = thought !== "" && content === "" && calls.length === 0;
  return (
    <>
      {thought !== "" && (
        <Thought thought={thought} growing={thinking && growing} took={thoughtMs} />
      )}
      {thinking && !growing ? (
        <p class="note">It ended before the model was done thinking.</p>
      ) : (
        <MarkdownView text={content} growing={growing && calls.length === 0} />
      )}
      <ToolCalls calls={calls} growing={growing} />
    </>
  );
}
