import { count } from "../format.ts";

interface Props {
  /** Tokens of the conversation, as the engine counted them last. */
  readonly used: number;
  /** Tokens that the model holds. */
  readonly context: number;
}

/** From here on it is said what happens when the context is full. */
const NEARLY_FULL = 0.75;

/** How full the context is. */
export function ContextMeter({ used, context }: Props) {
  const part = Math.min(used / context, 1);
  const full = part >= NEARLY_FULL;
  return (
    <p class={full ? "context full" : "context"} data-testid="context">
      <meter aria-label="Context in use" max={context} value={used} style={{ "--part": part }} />
      <span>
        {count(used)} of {count(context)} tokens
        {full && ". The oldest messages are left out when it is full."}
      </span>
    </p>
  );
}
