import { lessContext } from "../load-stamp.ts";
import type { Offer } from "../offers.ts";

interface Props {
  readonly offer: Offer;
  readonly onLoad: (offer: Offer) => void;
  readonly onLoadLess: (offer: Offer) => void;
}

/** Says that the page ended while a model was loading, and offers to load it with less memory. */
export function Interrupted({ offer, onLoad, onLoadLess }: Props) {
  return (
    <section class="panel bad" role="alert" data-testid="interrupted">
      <p>
        <strong>The browser ended this page while {offer.name} was loading</strong>, perhaps for
        want of memory. With room for shorter conversations it takes less.
      </p>
      <p>
        <button
          type="button"
          class="primary"
          data-testid="load-less"
          onClick={() => onLoadLess(offer)}
        >
          Load with {lessContext(offer).toLocaleString("en")} tokens of context
        </button>{" "}
        <button type="button" onClick={() => onLoad(offer)}>
          Load as before
        </button>
      </p>
    </section>
  );
}
