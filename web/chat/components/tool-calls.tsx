import { indented } from "../indent.ts";
import type { WrittenCall } from "../written.ts";

interface Props {
  readonly calls: readonly WrittenCall[];
  /** Whether more of the answer comes. */
  readonly growing: boolean;
}

/** The tools that a model calls, and with what. */
export function ToolCalls({ calls, growing }: Props) {
  if (calls.length === 0) return null;
  return (
    <ul class="calls" aria-label="Calls of tools">
      {calls.map((call) => (
        <li key={call.index}>
          <ToolCall call={call} growing={growing} />
        </li>
      ))}
    </ul>
  );
}

function ToolCall({ call, growing }: { readonly call: WrittenCall; readonly growing: boolean }) {
  const { name, arguments: given, complete } = call;
  return (
    <details class="call" data-testid="tool-call" open>
      <summary>
        {label(complete, growing)} <code>{name}</code>
      </summary>
      {/* What scrolls has to be reached by keys. */}
      {/* biome-ignore-start lint/a11y: a block of code is no form */}
      <pre tabIndex={0} role="group" aria-label={`What ${name} is called with`}>
        <code>{indented(given)}</code>
      </pre>
      {/* biome-ignore-end lint/a11y: a block of code is no form */}
    </details>
  );
}

function label(complete: boolean, growing: boolean): string {
  if (complete) return "Called";
  return growing ? "Calling" : "Began to call";
}
