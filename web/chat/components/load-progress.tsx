import type { LoadPhase, LoadProgress } from "../../client/types.ts";
import { bytes, duration } from "../format.ts";
import type { ModelState } from "../model.ts";

const PHASES: Readonly<Record<LoadPhase, string>> = {
  manifest: "Reading what the model consists of",
  device: "Opening the GPU",
  tuning: "Finding the fastest program for this GPU",
  kernels: "Compiling for this GPU",
  weights: "Loading the model",
  ready: "Ready",
};

interface Props {
  readonly model: Extract<ModelState, { kind: "loading" }>;
  readonly onCancel: () => void;
}

/** How far loading is: the phase, bytes and their speed, and a way out. */
export function LoadProgressView({ model, onCancel }: Props) {
  const { offer, progress, speed } = model;
  return (
    <section class="panel" data-testid="load-progress" aria-busy="true" aria-labelledby="loading">
      <h1 id="loading">{offer.name}</h1>
      <p id="load-phase" role="status">
        {progress ? PHASES[progress.phase] : "Starting"}
      </p>
      <progress
        aria-labelledby="load-phase"
        max={progress?.total || 1}
        value={progress ? progress.done : 0}
      />
      <p class="detail">{progress ? detail(progress, speed) : ""}</p>
      <button type="button" data-testid="cancel-load" onClick={onCancel}>
        Cancel
      </button>
    </section>
  );
}

function detail({ phase, done, total, cached }: LoadProgress, speed: number): string {
  if (phase !== "weights") return total > 1 ? `${done} of ${total}` : "";
  const left = speed > 0 && total > done ? ((total - done) / speed) * 1000 : 0;
  return [
    `${bytes(done)} of ${bytes(total)}`,
    ...(cached > 0 ? [`${bytes(cached)} from this device`] : []),
    ...(speed > 0 ? [`${bytes(speed)}/s`] : []),
    ...(left > 2000 ? [`${duration(left)} left`] : []),
  ].join(" · ");
}
