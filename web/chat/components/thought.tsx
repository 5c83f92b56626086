import { useState } from "preact/hooks";
import { duration } from "../format.ts";
import { MarkedText } from "./marked-text.tsx";

interface Props {
  readonly thought: string;
  /** Whether more of it comes. */
  readonly growing: boolean;
  /** How long it took so far, in milliseconds; undefined where that was not noted. */
  readonly took: number | undefined;
}

/** What a model thought before it answered, folded away: it is only drawn for who unfolds it. */
export function Thought({ thought, growing, took }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details
      class="thought"
      data-testid="thought"
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary>{label(growing, took)}</summary>
      {open && <MarkedText text={thought} growing={growing} />}
    </details>
  );
}

function label(growing: boolean, took: number | undefined): string {
  if (growing) return `Thinking… ${Math.floor((took ?? 0) / 1000)} s`;
  return took === undefined ? "Thought" : `Thought for ${duration(took)}`;
}
