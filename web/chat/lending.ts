/** Whether this page lends its GPU to the host, and what of it is shown. */

import { useEffect, useState } from "preact/hooks";
import type { Engine } from "../client/index.ts";
import type { Lending, LendState } from "../client/lend.ts";
import { asksToLend } from "./asks-to-lend.ts";
import { useStable } from "./hooks.ts";
import { key } from "./key.ts";
import type { Offer } from "./offers.ts";
import { prefer, preference } from "./preferences.ts";

export interface ShownLending {
  readonly on: boolean;
  /** Null while there is nothing to lend. */
  readonly state: LendState | null;
  readonly turn: (on: boolean) => void;
}

/** Lends an engine to a host that wants it, as long as that is on. */
export function useLending(
  engine: Engine | null,
  offer: Offer | null,
  wanted: boolean,
): ShownLending {
  const [on, setOn] = useState(() => asksToLend() || preference("edgewise.lend") === "yes");
  const [state, setState] = useState<LendState | null>(null);
  const model = offer?.name;
  useEffect(() => {
    setState(null);
    if (!engine || model === undefined || !wanted || !on) return;
    let lending: Lending | null = null;
    let left = false;
    // Few lend: its code waits.
    void import("../client/lend.ts").then(({ lend }) => {
      if (left) return;
      lending = lend(engine, {
        model,
        ...(key && { key }),
        onState: (state) => setState(state.kind === "ended" ? null : state),
      });
    });
    return () => {
      left = true;
      lending?.stop();
    };
  }, [engine, model, wanted, on]);
  return {
    on,
    state,
    turn: useStable((to: boolean) => {
      prefer("edgewise.lend", to ? "yes" : null);
      setOn(to);
    }),
  };
}
