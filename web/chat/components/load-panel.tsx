import type { AdapterReport, LoadPhase } from "../../client/types.ts";
import { bytes } from "../format.ts";
import { howToGetWebGpu, type ModelState } from "../model.ts";
import { downloadBytes, type Offer } from "../offers.ts";

interface Props {
  readonly model: ModelState;
  readonly offers: readonly Offer[] | null;
  readonly adapter: AdapterReport | null;
  readonly onLoad: (offer: Offer) => void;
  readonly onCancel: () => void;
}

const PHASES: Readonly<Record<LoadPhase, string>> = {
  manifest: "Reading what the model consists of",
  device: "Opening the GPU",
  tuning: "Finding the fastest program for this GPU",
  kernels: "Compiling for this GPU",
  weights: "Loading the model",
  ready: "Ready",
};

/** What stands between a person and a loaded model: the choice, progress, or why it does not work. */
export function LoadPanel({ model, offers, adapter, onLoad, onCancel }: Props) {
  if (adapter && !adapter.available) {
    return (
      <section class="panel" role="alert" data-testid="error">
        <h2>This page needs WebGPU</h2>
        <p>{adapter.reason}</p>
        <p>{howToGetWebGpu(navigator.userAgent)}</p>
      </section>
    );
  }
  if (model.kind === "loading") return <Progress model={model} onCancel={onCancel} />;
  if (model.kind === "failed") {
    const { offer, failure } = model;
    return (
      <section class="panel" role="alert" data-testid="error">
        <h2>{offer.name} could not be loaded</h2>
        <p>{failure.message}</p>
        {failure.remedy && <p>{failure.remedy}</p>}
        <p class="code">{failure.code}</p>
        <button type="button" class="primary" onClick={() => onLoad(offer)}>
          Try again
        </button>
      </section>
    );
  }
  if (offers === null) return <section class="panel">Asking the host for its models…</section>;
  if (offers.length === 0) {
    return (
      <section class="panel" role="alert" data-testid="error">
        <h2>The host cannot be reached</h2>
        <p>No model has been offered to this browser before. Start the host and reload the page.</p>
      </section>
    );
  }
  return (
    <section class="panel">
      <h2>Choose a model</h2>
      <p>It runs on this device. What you write stays here.</p>
      <ul class="offers">
        {offers.map((offer) => (
          <li key={offer.url}>
            <button type="button" class="offer" onClick={() => onLoad(offer)}>
              <strong>{offer.name}</strong>
              <span>
                {offer.family}, {offer.quant} · {bytes(downloadBytes(offer))} · up to{" "}
                {offer.context.toLocaleString()} tokens
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Progress({
  model,
  onCancel,
}: {
  readonly model: Extract<ModelState, { kind: "loading" }>;
  readonly onCancel: () => void;
}) {
  const { offer, progress, speed } = model;
  const weights = progress?.phase === "weights";
  const detail = weights
    ? `${bytes(progress.done)} of ${bytes(progress.total)}` +
      (progress.cached > 0 ? `, ${bytes(progress.cached)} from this device` : "") +
      (speed > 0 ? `, ${bytes(speed)}/s` : "")
    : progress && progress.total > 1
      ? `${progress.done} of ${progress.total}`
      : "";
  return (
    <section class="panel" data-testid="load-progress" aria-busy="true">
      <h2>{offer.name}</h2>
      <p id="load-phase">{progress ? PHASES[progress.phase] : "Starting"}</p>
      <progress
        aria-labelledby="load-phase"
        max={progress?.total || 1}
        value={progress ? progress.done : 0}
      />
      <p class="detail">{detail}</p>
      <button type="button" data-testid="cancel-load" onClick={onCancel}>
        Cancel
      </button>
    </section>
  );
}
