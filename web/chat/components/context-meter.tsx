import { count } from "../format.ts";

interface Props {
  /** Tokens of the conversation, as the engine counted them last. */
  readonly used: number;
  /** Tokens that the model holds. */
  readonly context: number;
}

/** The part of the context beyond which it is said what comes next. */
const NEARLY_FULL = 0.75;

/** How full the context is. */
export function ContextMeter({ used, context }: Props) {
  const full = used >= NEARLY_FULL * context;
  return (
    <p class="context" data-testid="context">
      <meter
        aria-label="Context in use"
        min={0}
        max={context}
        high={NEARLY_FULL * context}
        value={used}
      />
      <span>
        {count(used)} of {count(context)} tokens
        {full && ". The oldest messages are left out when it is full."}
      </span>
    </p>
  );
}
