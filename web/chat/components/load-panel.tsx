import type { ComponentChildren } from "preact";
import type { AdapterReport } from "../../client/types.ts";
import { bytes } from "../format.ts";
import { lazy, useLazy } from "../lazy.ts";
import type { ModelState } from "../model.ts";
import { downloadBytes, type Offer, type Offers } from "../offers.ts";
import { type Kept, keptOf } from "../storage.ts";
import { LoadOptions } from "./load-options.tsx";
import { LoadProgressView } from "./load-progress.tsx";

interface Props {
  readonly model: ModelState;
  readonly offers: Offers | null;
  readonly kept: Kept | null;
  readonly adapter: AdapterReport | null;
  readonly onLoad: (offer: Offer) => void;
  readonly onCancel: () => void;
  readonly onAskAgain: () => void;
}

const advice = lazy(async () => (await import("../advice.ts")).howToGetWebGpu);

/** What stands between a person and a loaded model: the choice, progress, or why it does not work. */
export function LoadPanel(props: Props) {
  const { model, offers, adapter, onLoad } = props;
  const howToGetWebGpu = useLazy(advice, adapter?.available === false);
  if (adapter && !adapter.available) {
    return (
      <Trouble title="This page needs WebGPU">
        <p>{adapter.reason}</p>
        {howToGetWebGpu && <p>{howToGetWebGpu(navigator.userAgent, isSecureContext)}</p>}
      </Trouble>
    );
  }
  if (model.kind === "loading") return <LoadProgressView model={model} onCancel={props.onCancel} />;
  if (model.kind === "ready") {
    return (
      <Trouble title="The GPU was lost">
        <p>It did not come back. The conversation is kept.</p>
        <Again onClick={() => onLoad(model.offer)}>Load the model again</Again>
      </Trouble>
    );
  }
  if (model.kind === "failed") {
    const { offer, failure } = model;
    return (
      <Trouble title={`${offer.name} could not be loaded`}>
        <p>{failure.message}</p>
        {failure.remedy && <p>{failure.remedy}</p>}
        <p class="code">{failure.code}</p>
        <LoadOptions offer={offer} adapter={adapter} />
        <Again onClick={() => onLoad(offer)}>Try again</Again>
      </Trouble>
    );
  }
  if (offers === null || adapter === null) {
    return <section class="panel note">Asking the host for its models…</section>;
  }
  if (offers.offers.length === 0) {
    return offers.fresh ? (
      <Trouble title="The host offers no models">
        <p>Start it with a bundle that has a program for WebGPU:</p>
        <p class="code">edgewise serve BUNDLE</p>
        <Again onClick={props.onAskAgain}>Ask again</Again>
      </Trouble>
    ) : (
      <Trouble title="The host cannot be reached">
        <p>No model has been offered to this browser before. Start the host, then try again.</p>
        <Again onClick={props.onAskAgain}>Try again</Again>
      </Trouble>
    );
  }
  return <Choice {...props} offers={offers} />;
}

function Choice({
  offers,
  kept,
  adapter,
  onLoad,
  onAskAgain,
}: Props & { readonly offers: Offers }) {
  return (
    <section class="panel" aria-labelledby="choice">
      <h1 id="choice">Choose a model</h1>
      <p class="lead">It runs on this device. What you write stays here.</p>
      {kept !== null && kept.models.length === 0 && (
        <p class="note" data-testid="first-visit">
          The model that you choose is downloaded once, {sizes(offers.offers)}, and kept in this
          browser: after that it works without a network. Conversations, files that you attach, and
          what the model has read of them are kept here, too. While this device answers, none of it
          is sent anywhere. Conversations are deleted in their list, all else in the settings.
        </p>
      )}
      {!offers.fresh && (
        <p class="offline" role="status" data-testid="offline">
          The host cannot be reached. Models on this device work all the same.{" "}
          <button type="button" onClick={onAskAgain}>
            Try again
          </button>
        </p>
      )}
      <ul class="offers">
        {offers.offers.map((offer) => (
          <li key={offer.url}>
            <button type="button" class="offer" onClick={() => onLoad(offer)}>
              <strong>{offer.name}</strong>
              <span class="tag">{presence(kept, offer)}</span>
              <span class="details">
                {offer.family}, {offer.quant} · up to {offer.context.toLocaleString("en")} tokens
              </span>
            </button>
            <LoadOptions offer={offer} adapter={adapter} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Bytes of the smallest download and of the largest. */
function sizes(offers: readonly Offer[]): string {
  const all = offers.map(downloadBytes);
  const [least, most] = [bytes(Math.min(...all)), bytes(Math.max(...all))];
  return least === most ? most : `${least} to ${most}`;
}

/** What of a model is here, and what is still to be downloaded. */
function presence(kept: Kept | null, offer: Offer): string {
  const size = bytes(downloadBytes(offer));
  const found = keptOf(kept, offer);
  if (found?.complete) return `${size} · on this device`;
  return found ? `${size} · ${bytes(found.bytes)} on this device` : `${size} to download`;
}

function Trouble(props: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section class="panel bad" role="alert" data-testid="error">
      <h1>{props.title}</h1>
      {props.children}
    </section>
  );
}

function Again(props: { readonly onClick: () => void; readonly children: ComponentChildren }) {
  return (
    <p>
      <button type="button" class="primary" onClick={props.onClick}>
        {props.children}
      </button>
    </p>
  );
}
