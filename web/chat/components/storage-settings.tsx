import { useEffect, useState } from "preact/hooks";
import { bytes } from "../format.ts";
import { forgetPages, type KeptPages, keptPages, LIMITS, limitPages } from "../kept-pages.ts";
import { pagesLimit } from "../preferences.ts";
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
      <Pages />
    </>
  );
}

/** What of conversations is kept so that it is not read again. */
function Pages() {
  const [kept, setKept] = useState<KeptPages | null>(null);
  const [limit, setLimit] = useState(pagesLimit);
  const look = () => {
    keptPages().then(setKept, () => setKept(null));
  };
  useEffect(look, []);
  if (!kept) return null;
  return (
    <>
      <label class="field column">
        Keep what models have read
        <select
          data-testid="pages-limit"
          value={String(limit)}
          onChange={({ currentTarget }) => {
            const chosen = LIMITS[currentTarget.selectedIndex] ?? null;
            limitPages(chosen);
            setLimit(chosen);
          }}
        >
          {LIMITS.map((one) => (
            <option key={one} value={String(one)}>
              {one === null
                ? "As much as there is room for"
                : one === 0
                  ? "Nothing"
                  : `Up to ${bytes(one)}`}
            </option>
          ))}
        </select>
      </label>
      <p class="note">
        Conversations that begin alike answer sooner, also after a reload: {bytes(kept.bytes)} of
        them are kept on this device and nowhere else. A change holds when a model is loaded next.
      </p>
      <button
        type="button"
        data-testid="forget-pages"
        disabled={kept.pages === 0}
        onClick={() => void forgetPages().then(look)}
      >
        Forget what models have read
      </button>
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
