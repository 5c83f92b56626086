import { useEffect, useState } from "preact/hooks";
import { bytes } from "../format.ts";
import { type Kept, type KeptModel, keptModels, removeModel } from "../storage.ts";

/** Models on this device, with a way to delete them. */
export function StorageSettings({ onChange }: { readonly onChange: () => void }) {
  const [kept, setKept] = useState<Kept | null>(null);
  const [failed, setFailed] = useState(false);
  const look = () => {
    keptModels().then(setKept, () => setFailed(true));
  };
  useEffect(look, []);
  const remove = async (model: KeptModel) => {
    await removeModel(model.url).catch(() => setFailed(true));
    look();
    onChange();
  };
  return (
    <>
      <h2>On this device</h2>
      {failed && <p class="note">This browser does not say what it keeps.</p>}
      {kept && (
        <p class="note">
          {bytes(kept.usage)} used
          {kept.quota > 0 && ` of ${bytes(kept.quota)} that the browser allows`}.
          {kept.models.length === 0 && " No models."}
        </p>
      )}
      <ul class="kept">
        {kept?.models.map((model) => (
          <Model key={model.url} model={model} onRemove={() => void remove(model)} />
        ))}
      </ul>
    </>
  );
}

function Model(props: { readonly model: KeptModel; readonly onRemove: () => void }) {
  const { name, bytes: size, complete } = props.model;
  const [sure, setSure] = useState(false);
  return (
    <li>
      <span>
        {name}
        <small>
          {bytes(size)}
          {complete ? "" : ", not all of it"}
        </small>
      </span>
      <button
        type="button"
        class={sure ? "danger" : ""}
        aria-label={`Delete ${name}`}
        onBlur={() => setSure(false)}
        onClick={() => {
          if (sure) props.onRemove();
          else setSure(true);
        }}
      >
        {sure ? "Really delete" : "Delete"}
      </button>
    </li>
  );
}
