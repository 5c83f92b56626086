import { useEffect, useRef, useState } from "preact/hooks";
import type { Conversation, Settings } from "../conversations.ts";
import { bytes } from "../format.ts";
import { type Kept, keptModels, removeModel } from "../storage.ts";

interface Props {
  readonly conversation: Conversation;
  readonly onChange: (changes: Partial<Conversation>) => void;
  readonly onClose: () => void;
}

interface Field {
  readonly name: keyof Settings;
  readonly label: string;
  readonly low: number;
  readonly high: number;
  readonly step: number;
}

const FIELDS: readonly Field[] = [
  { name: "temperature", label: "Temperature", low: 0, high: 5, step: 0.05 },
  { name: "topP", label: "Top-p", low: 0.01, high: 1, step: 0.01 },
  { name: "topK", label: "Top-k", low: 0, high: 1000, step: 1 },
  { name: "minP", label: "Min-p", low: 0, high: 1, step: 0.01 },
  { name: "repetitionPenalty", label: "Repetition penalty", low: 0.5, high: 2, step: 0.05 },
  { name: "maxTokens", label: "Most tokens of an answer", low: 1, high: 100_000, step: 1 },
  { name: "seed", label: "Seed", low: 0, high: Number.MAX_SAFE_INTEGER, step: 1 },
];

/** Settings of this conversation, and what is kept on this device. */
export function SettingsDialog({ conversation, onChange, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="settings-title" onClose={onClose}>
      <form method="dialog">
        <h2 id="settings-title">This conversation</h2>
        <label class="field column">
          System prompt
          <textarea
            rows={3}
            value={conversation.system}
            maxLength={20_000}
            onInput={(event) => onChange({ system: event.currentTarget.value })}
          />
        </label>
        {FIELDS.map((field) => (
          <label class="field" key={field.name}>
            {field.label}
            <input
              type="number"
              min={field.low}
              max={field.high}
              step={field.step}
              placeholder="model's own"
              value={conversation.settings[field.name] ?? ""}
              onInput={(event) => {
                const settings = changed(conversation.settings, field, event.currentTarget.value);
                if (settings) onChange({ settings });
              }}
            />
          </label>
        ))}
        <Storage />
        <p class="actions">
          <button type="submit" class="primary">
            Done
          </button>
        </p>
      </form>
    </dialog>
  );
}

/** The settings with one changed, without it where the text is empty; null for what is no value. */
function changed(settings: Settings, { name, low, high }: Field, text: string): Settings | null {
  const { [name]: _, ...others } = settings;
  if (text === "") return others;
  const value = Number(text);
  return value >= low && value <= high ? { ...others, [name]: value } : null;
}

function Storage() {
  const [kept, setKept] = useState<Kept | null>(null);
  const look = () => void keptModels().then(setKept);
  useEffect(look, []);
  if (!kept) return null;
  return (
    <>
      <h2>On this device</h2>
      <p class="note">
        {bytes(kept.usage)} used
        {kept.quota > 0 && ` of ${bytes(kept.quota)} that the browser allows`}.
      </p>
      <ul class="kept">
        {kept.models.map((model) => (
          <li key={model.url}>
            <span>
              {model.name} · {bytes(model.bytes)}
            </span>
            <button type="button" onClick={() => void removeModel(model.url).then(look)}>
              Delete
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
