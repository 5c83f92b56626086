import { useEffect, useRef, useState } from "preact/hooks";
import type { Thinking } from "../../client/types.ts";
import { MAX_TOKENS } from "../chat-state.ts";
import type { Conversation } from "../conversations.ts";
import type { Offer } from "../offers.ts";
import { changed, FIELDS, type Field } from "../settings.ts";
import { type Defaults, modelDefaults } from "../storage.ts";
import { Icon } from "./icons.tsx";
import { StorageSettings } from "./storage-settings.tsx";
import { ThinkingSetting } from "./thinking-setting.tsx";

interface Props {
  readonly conversation: Conversation;
  /** The model whose own settings are shown where a person sets none. */
  readonly offer: Offer | null;
  /** What the model that is loaded does about thoughts. */
  readonly thinking: Thinking | null;
  readonly onChange: (changes: Partial<Pick<Conversation, "system" | "settings">>) => void;
  readonly onExport: () => void;
  readonly onStorage: () => void;
  readonly onClose: () => void;
}

/** Settings of this conversation, and what is kept on this device. */
export function SettingsDialog(props: Props) {
  const { conversation, offer, onChange } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const [defaults, setDefaults] = useState<Defaults | null>(null);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    setDefaults(null);
    if (offer) void modelDefaults(offer).then(setDefaults);
  }, [offer]);
  return (
    <dialog ref={dialog} closedby="any" aria-labelledby="settings-title" onClose={props.onClose}>
      <form method="dialog">
        <h2 id="settings-title">This conversation</h2>
        <label class="field column">
          System prompt
          <textarea
            rows={3}
            value={conversation.system}
            placeholder="What the model should know or how it should answer"
            maxLength={20_000}
            onInput={(event) => onChange({ system: event.currentTarget.value })}
          />
        </label>
        {FIELDS.map((field) => (
          <label class="field" key={field.name}>
            <span>
              {field.label}
              <small>{field.hint}</small>
            </span>
            <input
              type="number"
              inputMode="decimal"
              min={field.low}
              max={field.high}
              step={field.step}
              placeholder={placeholder(defaults, field)}
              defaultValue={conversation.settings[field.name]?.toString() ?? ""}
              onInput={({ currentTarget: { value, validity } }) => {
                const settings = changed(conversation.settings, field, value);
                if (settings && !validity.badInput) onChange({ settings });
              }}
            />
          </label>
        ))}
        <ThinkingSetting
          thinking={props.thinking}
          settings={conversation.settings}
          onChange={(settings) => onChange({ settings })}
        />
        <StorageSettings onChange={props.onStorage} />
        <div class="buttons">
          <button type="button" title="Save all conversations as JSON" onClick={props.onExport}>
            <Icon name="download" /> Export all
          </button>
          <button type="submit" class="primary">
            Done
          </button>
        </div>
      </form>
    </dialog>
  );
}

function placeholder(defaults: Defaults | null, { name }: Field): string {
  if (name === "seed") return "random";
  if (!defaults) return "default";
  return String(name === "maxTokens" ? (defaults.maxTokens ?? MAX_TOKENS) : defaults.params[name]);
}
