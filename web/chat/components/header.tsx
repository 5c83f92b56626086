import type { AdapterReport } from "../../client/types.ts";
import { bytes } from "../format.ts";
import type { ModelState } from "../model.ts";
import { downloadBytes, type Offer } from "../offers.ts";

interface Props {
  readonly offers: readonly Offer[];
  readonly model: ModelState;
  readonly adapter: AdapterReport | null;
  readonly theme: "light" | "dark";
  readonly onMenu: () => void;
  readonly onPick: (offer: Offer) => void;
  readonly onSettings: () => void;
  readonly onTheme: () => void;
}

/** The bar above: which model, what it runs on, settings and theme. */
export function Header(props: Props) {
  const { offers, model } = props;
  const chosen = model.kind === "none" ? "" : model.offer.url;
  return (
    <header class="bar">
      <button type="button" class="icon menu" aria-label="Conversations" onClick={props.onMenu}>
        ☰
      </button>
      <label class="picker">
        <span class="hidden">Model</span>
        <select
          data-testid="model-picker"
          value={chosen}
          onChange={(event) => {
            const offer = offers.find(({ url }) => url === event.currentTarget.value);
            if (offer) props.onPick(offer);
          }}
        >
          {chosen === "" && <option value="">Choose a model</option>}
          {offers.map((offer) => (
            <option key={offer.url} value={offer.url}>
              {offer.name} · {bytes(downloadBytes(offer))}
            </option>
          ))}
        </select>
      </label>
      <span class="status" data-testid="device-status" role="status">
        {statusText(model, props.adapter)}
      </span>
      <button
        type="button"
        class="icon"
        data-testid="theme"
        aria-label={`Switch to the ${props.theme === "dark" ? "light" : "dark"} theme`}
        onClick={props.onTheme}
      >
        {props.theme === "dark" ? "☀" : "☾"}
      </button>
      <button
        type="button"
        class="icon"
        data-testid="settings"
        aria-label="Settings"
        onClick={props.onSettings}
      >
        ⚙
      </button>
    </header>
  );
}

function statusText(model: ModelState, adapter: AdapterReport | null): string {
  if (model.kind === "ready") {
    if (model.status === "recovering") return "The GPU was lost; loading the model again…";
    if (model.status === "failed") return "The GPU was lost";
    return `Ready on ${model.engine.info.adapter.name}`;
  }
  if (model.kind === "loading") return "Loading";
  if (adapter === null) return "Looking for a GPU";
  return adapter.available ? adapter.name : "No WebGPU";
}
