import type { ComponentChildren } from "preact";
import type { Warning } from "../../client/types.ts";
import type { Conversation } from "../conversations.ts";
import type { Failure } from "../failure.ts";
import { IconButton } from "./icons.tsx";

interface Props {
  readonly failure: Failure | null;
  readonly warnings: readonly Warning[];
  readonly removed: Conversation | null;
  readonly onRetry: (() => void) | null;
  readonly onDismissFailure: () => void;
  readonly onDismissWarning: (warning: Warning) => void;
  readonly onUndo: () => void;
  readonly onDismissRemoved: () => void;
}

/** What went wrong, what a person should know, and what can be taken back. */
export function Banners(props: Props) {
  const { failure, removed, onRetry } = props;
  return (
    <div class="banners">
      {props.warnings.map((warning) => (
        <Banner
          key={warning.code}
          testid="warning"
          role="status"
          onDismiss={() => props.onDismissWarning(warning)}
        >
          {warning.message} {warning.remedy}
        </Banner>
      ))}
      {failure && (
        <Banner testid="error" role="alert" class="bad" onDismiss={props.onDismissFailure}>
          <strong>{failure.message}</strong> {failure.remedy}
          {onRetry && (
            <button type="button" onClick={onRetry}>
              Try again
            </button>
          )}
        </Banner>
      )}
      {removed && (
        <Banner testid="removed" role="status" onDismiss={props.onDismissRemoved}>
          “{removed.title}” is deleted.
          <button type="button" onClick={props.onUndo}>
            Undo
          </button>
        </Banner>
      )}
    </div>
  );
}

interface BannerProps {
  readonly testid: string;
  readonly role: "alert" | "status";
  readonly class?: string;
  readonly onDismiss: () => void;
  readonly children: ComponentChildren;
}

function Banner({ testid, role, onDismiss, children, ...rest }: BannerProps) {
  return (
    <div class={`banner ${rest.class ?? ""}`} role={role} data-testid={testid}>
      <p>{children}</p>
      <IconButton icon="close" label="Dismiss" class="small" onClick={onDismiss} />
    </div>
  );
}
