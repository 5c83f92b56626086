import { IconButton } from "./icons.tsx";

interface Props {
  /** Which version is shown, counted from 1, and of how many. */
  readonly at: number;
  readonly of: number;
  readonly disabled: boolean;
  /** Show the one so many after it, or before it; after the last comes the first. */
  readonly onTurn: (step: number) => void;
}

/** Turns between the versions of a message; nothing where there is only one. */
export function Versions({ at, of, disabled, onTurn }: Props) {
  if (of < 2) return null;
  return (
    <span class="versions" data-testid="versions">
      <IconButton
        icon="back"
        label="Version before"
        class="small"
        disabled={disabled}
        onClick={() => onTurn(-1)}
      />
      <span aria-hidden="true">
        {at}/{of}
      </span>
      <span class="hidden" aria-live="polite">
        Version {at} of {of}
      </span>
      <IconButton
        icon="forward"
        label="Next version"
        class="small"
        disabled={disabled}
        onClick={() => onTurn(1)}
      />
    </span>
  );
}
