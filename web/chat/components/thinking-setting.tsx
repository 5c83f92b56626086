import type { Thinking } from "../../client/types.ts";
import type { Settings } from "../conversations.ts";
import { thinks } from "../thoughts.ts";

interface Props {
  /** Of the model that is loaded; null where none is, or where it has no chat template. */
  readonly thinking: Thinking | null;
  readonly settings: Settings;
  readonly onChange: (settings: Settings) => void;
}

/** Whether the model thinks first, where its template lets that be said or it thinks unasked. */
export function ThinkingSetting({ thinking, settings, onChange }: Props) {
  if (!thinking || !(thinking.switchable || thinking.opened.on)) return null;
  const { switchable } = thinking;
  return (
    <label class="field">
      <span>
        Think first
        <small>
          {switchable
            ? "Takes longer; answers to hard questions get better"
            : "This model's chat template has no switch for it"}
        </small>
      </span>
      <input
        type="checkbox"
        disabled={!switchable}
        checked={thinks(thinking, settings)}
        onInput={({ currentTarget: { checked } }) => {
          const { variables: _, ...others } = settings;
          const variables = { enable_thinking: checked };
          onChange(checked === thinking.byDefault ? others : { ...others, variables });
        }}
      />
    </label>
  );
}
