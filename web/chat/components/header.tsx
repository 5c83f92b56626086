import { memo } from "preact/compat";
import type { AdapterReport } from "../../client/types.ts";
import { bytes } from "../format.ts";
import type { Host } from "../host.ts";
import type { ModelState } from "../model.ts";
import { downloadBytes, type Offer } from "../offers.ts";
import { type Kept, keptOf } from "../storage.ts";
import type { Theme } from "../theme.ts";
import { Icon, IconButton } from "./icons.tsx";

interface Props {
  readonly offers: readonly Offer[];
  readonly kept: Kept | null;
  readonly model: ModelState;
  readonly adapter: AdapterReport | null;
  readonly host: Host;
  readonly theme: Theme;
  readonly drawer: boolean;
  readonly onMenu: () => void;
  readonly onPick: (offer: Offer) => void;
  readonly onSettings: () => void;
  readonly onTheme: () => void;
}

/** The bar above: which model, what it runs on, settings and theme. */
export const Header = memo(function Header(props: Props) {
  const { offers, kept, model, adapter, host } = props;
  const isHost = host.where === "host";
  const chosen = isHost ? (host.offer?.url ?? "") : model.kind === "none" ? "" : model.offer.url;
  return (
    <header class="bar">
      <button
        type="button"
        class="icon menu"
        aria-label="Conversations"
        aria-expanded={props.drawer}
        aria-controls="conversations"
        onClick={props.onMenu}
      >
        <Icon name="menu" />
      </button>
      <label class="picker">
        <span class="hidden">Model</span>
        <select
          data-testid="model-picker"
          value={chosen}
          disabled={adapter?.available === false && !isHost}
          onChange={(event) => {
            const offer = offers.find(({ url }) => url === event.currentTarget.value);
            if (offer) props.onPick(offer);
          }}
        >
          {chosen === "" && <option value="">Choose a model</option>}
          {offers.map((offer) => (
            <option key={offer.url} value={offer.url}>
              {`${offer.name} · ${bytes(downloadBytes(offer))}`}
              {keptOf(kept, offer)?.complete ? " · on this device" : ""}
            </option>
          ))}
        </select>
      </label>
      <span
        class={`status ${isHost ? "good" : mood(model, adapter)}`}
        data-testid="device-status"
        role="status"
      >
        {isHost ? "Answers from the host" : statusText(model, adapter)}
      </span>
      <IconButton
        icon={props.theme === "dark" ? "sun" : "moon"}
        label={`Switch to the ${props.theme === "dark" ? "light" : "dark"} theme`}
        testid="theme"
        onClick={props.onTheme}
      />
      <IconButton icon="sliders" label="Settings" testid="settings" onClick={props.onSettings} />
    </header>
  );
});

function statusText(model: ModelState, adapter: AdapterReport | null): string {
  if (model.kind === "ready") {
    if (model.status === "recovering") return "The GPU was lost; loading the model again…";
    if (model.status === "failed") return "The GPU was lost";
    return `Ready on ${deviceName(model.engine.info.adapter)}`;
  }
  if (model.kind === "loading") return "Loading…";
  if (adapter === null) return "Looking for a GPU…";
  return adapter.available ? deviceName(adapter) : "No WebGPU";
}

function deviceName({ name, fallback }: AdapterReport): string {
  return fallback ? `${name} (software, slow)` : name;
}

/** Which colour the status has. */
function mood(model: ModelState, adapter: AdapterReport | null): "good" | "bad" | "idle" {
  if (adapter?.available === false || model.kind === "failed") return "bad";
  if (model.kind !== "ready") return "idle";
  return model.status === "ready" ? "good" : model.status === "failed" ? "bad" : "idle";
}
