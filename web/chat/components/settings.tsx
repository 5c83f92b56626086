import { useEffect, useRef, useState } from "preact/hooks";
import type { AdapterReport } from "../../client/types.ts";
import type { Book } from "../book.ts";
import { MAX_TOKENS } from "../bounds.ts";
import type { Conversation } from "../conversations.ts";
import type { ShownLending } from "../lending.ts";
import type { ModelState } from "../model.ts";
import type { Offer } from "../offers.ts";
import { changed, FIELDS, type Field } from "../settings.ts";
import { type Defaults, modelDefaults } from "../storage.ts";
import { EngineStatsView } from "./engine-stats.tsx";
import { FilesSettings } from "./files-settings.tsx";
import { Icon } from "./icons.tsx";
import { LendSetting } from "./lent.tsx";
import { LoadOptions } from "./load-options.tsx";
import { Loaded } from "./loaded.tsx";
import { StorageSettings } from "./storage-settings.tsx";
import { ThinkingSetting } from "./thinking-setting.tsx";
import { ToolsSetting } from "./tools-setting.tsx";

interface Props {
  readonly book: Book;
  readonly conversation: Conversation;
  /** The model whose own settings are shown where a person sets none. */
  readonly offer: Offer | null;
  readonly onChange: (changes: Partial<Pick<Conversation, "system" | "settings">>) => void;
  readonly model: ModelState;
  readonly adapter: AdapterReport | null;
  /** Null where the host wants no GPU lent. */
  readonly lending: ShownLending | null;
  readonly onLoad: (offer: Offer) => void;
  readonly onAdd: (conversations: readonly Conversation[]) => void;
  readonly onStorage: () => void;
  readonly onClose: () => void;
}

/** Settings of this conversation, and what is kept on this device. */
export function SettingsDialog(props: Props) {
  const { conversation, offer, model, onChange } = props;
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
          thinking={model.kind === "ready" ? model.engine.info.thinking : null}
          settings={conversation.settings}
          onChange={(settings) => onChange({ settings })}
        />
        <ToolsSetting
          settings={conversation.settings}
          onChange={(settings) => onChange({ settings })}
        />
        {model.kind === "ready" && (
          <>
            <h2>The model</h2>
            <Loaded info={model.engine.info} />
            <EngineStatsView engine={model.engine} />
            <LoadOptions offer={model.offer} adapter={props.adapter} />
            <p>
              <button
                type="button"
                data-testid="load-again"
                onClick={() => {
                  dialog.current?.close();
                  props.onLoad(model.offer);
                }}
              >
                <Icon name="again" /> Load again
              </button>
            </p>
          </>
        )}
        {props.lending && <LendSetting lending={props.lending} />}
        <StorageSettings
          engine={model.kind === "ready" ? model.engine : null}
          onChange={props.onStorage}
        />
        <FilesSettings book={props.book} conversation={conversation} onAdd={props.onAdd} />
        <div class="buttons">
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
