/** What a chat template does about thoughts, found out by rendering short conversations with it. */

import type { Thinking } from "../client/types.ts";
import type { ChatTemplate } from "./template.ts";

const USER = { role: "user", content: "?" };
/** Nothing that a template writes by itself. */
const THOUGHT = "a thought of an earlier answer";
const ANSWERED = [
  USER,
  { role: "assistant", content: `<think>\n${THOUGHT}\n</think>\n\nanswer` },
  USER,
];

/** What is known of a template's thoughts; of one that refuses to be asked, that it knows nothing of them. */
export function thinkingOf(template: Pick<ChatTemplate, "render">): Thinking {
  const prompt = (messages: typeof ANSWERED, enabled?: boolean): string => {
    try {
      const variables = enabled === undefined ? {} : { enable_thinking: enabled };
      return template.render(messages, { variables });
    } catch {
      return "";
    }
  };
  const [on, off] = [prompt([USER], true), prompt([USER], false)];
  // Asked again, since a template may write the time.
  const switchable = on !== off && on === prompt([USER], true);
  const answered = prompt(ANSWERED);
  return {
    switchable,
    byDefault: !switchable || prompt([USER]) !== off,
    opened: { on: isOpen(on), off: isOpen(off) },
    forgets: answered !== "" && !answered.includes(THOUGHT),
  };
}

function isOpen(prompt: string): boolean {
  return /<think>\s*$/.test(prompt);
}
