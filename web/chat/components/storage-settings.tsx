import { useEffect, useState } from "preact/hooks";
import type { Engine } from "../../client/index.ts";
import { bytes } from "../format.ts";
import { forgetPages, type KeptPages, keptPages, LIMITS, limitPages } from "../kept-pages.ts";
import { pagesLimit } from "../preferences.ts";
import { type Kept, type KeptModel, keptModels, removeModel } from "../storage.ts";

/** What keeps pages, if a model is loaded. */
type Keeper = Pick<Engine, "stats" | "forgetPages"> | null;

interface Props {
  readonly engine: Keeper;
  readonly onChange: () => void;
}

/** Models on this device, with a way to delete them. */
export function StorageSettings({ engine, onChange }: Props) {
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
      <Pages engine={engine} />
    </>
  );
}

/** What of conversations is kept so that it is not read again. */
function Pages({ engine }: { readonly engine: Keeper }) {
  const [kept, setKept] = useState<KeptPages | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [limit, setLimit] = useState(pagesLimit);
  const [failed, setFailed] = useState(false);
  const look = () => {
    keptPages().then(setKept, () => setKept(null));
    if (!engine) return setFailure(null);
    engine.stats().then(
      ({ pagesFailure }) => setFailure(pagesFailure),
      () => setFailure(null),
    );
  };
  useEffect(look, [engine]);
  const forget = async () => {
    const cleared = await forgetPages().then(
      () => true,
      () => false,
    );
    await engine?.forgetPages().catch(() => undefined);
    setFailed(!cleared && (await keptPages()).pages > 0);
  };
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
      {failure && (
        <p class="note" data-testid="pages-failure">
          What was read last could not be kept: {failure} It is tried again after a while.
        </p>
      )}
      <button
        type="button"
        data-testid="forget-pages"
        disabled={kept.pages === 0}
        onClick={() => void forget().then(look, look)}
      >
        Forget what models have read
      </button>
      {failed && (
        <p class="note" role="alert" data-testid="not-forgotten">
          Some of it is in use and stays: try again in a moment.
        </p>
      )}
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
