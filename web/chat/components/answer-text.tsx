import type { ChatMessage } from "../conversations.ts";
import { lazy, useLazy } from "../lazy.ts";
import { MarkedText } from "./marked-text.tsx";
import { Thought } from "./thought.tsx";

const toolCalls = lazy(async () => (await import("./tool-calls.tsx")).ToolCalls);

interface Props {
  readonly message: ChatMessage;
  /** Whether more of it comes. */
  readonly growing: boolean;
}

/** What a model wrote: what it said, between what it thought and what it calls. */
export function AnswerText({ message, growing }: Props) {
  const { content, thought = "", thoughtMs, calls = [] } = message;
  const ToolCalls = useLazy(toolCalls, calls.length > 0);
  const thinking = thought !== "" && content === "" && calls.length === 0;
  return (
    <>
      {thought !== "" && (
        <Thought thought={thought} growing={thinking && growing} took={thoughtMs} />
      )}
      {thinking && !growing ? (
        <p class="note">It ended before the model was done thinking.</p>
      ) : (
        <MarkedText text={content} growing={growing && calls.length === 0} />
      )}
      {ToolCalls && <ToolCalls calls={calls} growing={growing} />}
    </>
  );
}
