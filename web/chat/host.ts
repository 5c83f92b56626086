/** Who answers: this device, or the host that the page came from. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { RemoteEngine } from "../client/remote.ts";
import type { AdapterReport } from "../client/types.ts";
import type { Answers } from "./going-on.ts";
import { useStable } from "./hooks.ts";
import { key } from "./key.ts";
import type { Offer, Offers } from "./offers.ts";
import { prefer, preference } from "./preferences.ts";

export type Where = "device" | "host";

export interface Host {
  /** Whether the host answers for any model: else there is nothing to choose. */
  readonly there: boolean;
  readonly where: Where;
  /** Why this device cannot answer; empty where it can. */
  readonly why: string;
  /** The model that the host is asked for. */
  readonly offer: Offer | null;
  /** What asks the host; null while the device answers. */
  readonly answers: Answers | null;
  readonly turn: (where: Where) => void;
  readonly pick: (offer: Offer) => void;
}

/** @param local the model that is loaded here, or is on its way. */
export function useHost(
  offers: Offers | null,
  local: Offer | null,
  adapter: AdapterReport | null,
): Host {
  const [wanted, setWanted] = useState<Where | null>(() => asWhere(preference("edgewise.where")));
  const [picked, setPicked] = useState<Offer | null>(null);
  const [engine, setEngine] = useState<RemoteEngine | null>(null);
  const answered = offers?.offers.filter(({ name }) => offers.answers.includes(name)) ?? [];
  const there = answered.length > 0;
  const why = adapter?.available === false ? adapter.reason : "";
  const where = there && (why !== "" || wanted === "host") ? "host" : "device";
  const known = (one: Offer | null) => answered.find(({ url }) => url === one?.url);
  const last = answered.find(({ url }) => url === preference("edgewise.model"));
  const offer = known(picked) ?? known(local) ?? last ?? answered[0] ?? null;
  const on = where === "host" ? offer : null;
  useEffect(() => {
    if (!on) return;
    let made: RemoteEngine | null = null;
    let left = false;
    // Who is answered by this device needs none of it.
    void import("../client/remote.ts").then(({ RemoteEngine }) => {
      if (left) return;
      made = new RemoteEngine(on, key ? { key } : {});
      setEngine(made);
    });
    return () => {
      left = true;
      setEngine(null);
      void made?.close();
    };
  }, [on?.url]);
  const answers = useMemo<Answers | null>(
    () =>
      engine && {
        info: engine.info,
        where: "host",
        chat: (messages, options) => engine.chat(messages, options),
      },
    [engine],
  );
  return {
    there,
    where,
    why,
    offer,
    answers,
    turn: useStable((to: Where) => {
      prefer("edgewise.where", to);
      setWanted(to);
    }),
    pick: useStable((one: Offer) => {
      prefer("edgewise.model", one.url);
      setPicked(one);
    }),
  };
}

function asWhere(text: string | null): Where | null {
  return text === "device" || text === "host" ? text : null;
}
