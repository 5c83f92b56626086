import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Engine } from "../client/index.ts";
import type { AdapterReport, Warning } from "../client/types.ts";
import { asksToLend } from "./asks-to-lend.ts";
import { type Chat, type ChatState, createChat } from "./chat-state.ts";
import { choiceOf, type LoadChoice } from "./choices.ts";
import { openDatabase } from "./database.ts";
import { interruptedLoad, lessContext, stamped } from "./load-stamp.ts";
import { createModelHost, type ModelHost, type ModelState } from "./model.ts";
import { askForOffers, type Offer, type Offers } from "./offers.ts";
import { prefer, preference } from "./preferences.ts";
import { type Kept, keptModels, keptOf } from "./storage.ts";
import { followTheme, switchTheme, type Theme, theme } from "./theme.ts";

/** A function that stays the same while what it does changes, so that what has it need not. */
export function useStable<A extends unknown[], R>(act: (...args: A) => R): (...args: A) => R {
  const latest = useRef(act);
  latest.current = act;
  const stable = useRef((...args: A) => latest.current(...args));
  return stable.current;
}

/** The conversations, drawn anew when they change. */
export function useChat(): readonly [ChatState, Chat] {
  const made = useRef<Chat | null>(null);
  const shown = useRef<((state: ChatState) => void) | null>(null);
  made.current ??= createChat({
    database: openDatabase(),
    onFrame: (act) => void requestAnimationFrame(act),
    onState: (state) => shown.current?.(state),
  });
  const chat = made.current;
  const [state, setState] = useState(chat.state());
  shown.current = setState;
  useEffect(() => {
    void chat.restore();
    const onVisible = () => {
      if (document.visibilityState === "visible") void chat.restore();
      else chat.keepWriting();
    };
    document.addEventListener("visibilitychange", onVisible);
    return () => document.removeEventListener("visibilitychange", onVisible);
  }, [chat]);
  return [state, chat];
}

export interface Models {
  readonly adapter: AdapterReport | null;
  readonly offers: Offers | null;
  readonly kept: Kept | null;
  readonly model: ModelState;
  readonly warnings: readonly Warning[];
  /** At whose loading the page ended the last time. */
  readonly interrupted: Offer | null;
  readonly load: (offer: Offer) => void;
  /** Load with room for shorter conversations. */
  readonly loadLess: (offer: Offer) => void;
  readonly cancel: () => void;
  readonly dismiss: (warning: Warning) => void;
  readonly askAgain: () => void;
  /** See anew what is on this device. */
  readonly look: () => void;
}

/** The models of the host and the one that is loaded; the last one used loads by itself. */
export function useModels(): Models {
  const [adapter, setAdapter] = useState<AdapterReport | null>(null);
  const [offers, setOffers] = useState<Offers | null>(null);
  const [kept, setKept] = useState<Kept | null>(null);
  const [model, setModel] = useState<ModelState>({ kind: "none" });
  const [warnings, setWarnings] = useState<readonly Warning[]>([]);
  const host = useRef<ModelHost | null>(null);
  host.current ??= createModelHost({
    onState: (state) => {
      setModel(state);
      if (state.kind !== "loading") look();
    },
    onWarning: (warning) =>
      setWarnings((all) => [...all.filter(({ code }) => code !== warning.code), warning]),
  });
  const look = useStable(() => void keptModels().then(setKept, () => null));
  const [interrupted, setInterrupted] = useState<Offer | null>(null);
  const loadWith = useStable((offer: Offer, choice: LoadChoice) => {
    prefer("edgewise.model", offer.url);
    setWarnings([]);
    setInterrupted(null);
    void stamped(offer.url, async () => host.current?.load(offer, choice));
  });
  const load = useStable((offer: Offer) => loadWith(offer, choiceOf(offer)));
  const loadLess = useStable((offer: Offer) => {
    loadWith(offer, { ...choiceOf(offer), context: lessContext(offer) });
  });
  const askAgain = useStable(() => {
    setOffers(null);
    void askForOffers().then(setOffers);
  });
  useEffect(() => {
    const asked = Promise.all([
      Engine.probe(),
      askForOffers(),
      keptModels().catch(() => null),
      interruptedLoad(),
    ] as const);
    void asked.then(([report, offered, found, killed]) => {
      setAdapter(report);
      setOffers(offered);
      setKept(found);
      const of = (wanted: string | null) => offered.offers.find(({ url }) => url === wanted);
      const last = of(preference("edgewise.model"));
      // Who opens the page to lend its GPU has decided.
      const lent = asksToLend() && offered.tabs ? (last ?? offered.offers[0]) : undefined;
      // What ended the page once may do so again.
      const interrupted = of(killed);
      if (interrupted) return setInterrupted(interrupted);
      // What is not here would be downloaded, which a person decides.
      if (report.available && lent) load(lent);
      else if (report.available && last && keptOf(found, last)?.complete) load(last);
    });
  }, [load]);
  return {
    adapter,
    offers,
    kept,
    model,
    interrupted,
    warnings,
    load,
    loadLess,
    cancel: useStable(() => host.current?.cancel()),
    dismiss: useStable((warning) => setWarnings((all) => all.filter((one) => one !== warning))),
    askAgain,
    look,
  };
}

/** The theme shown, and how to change to the other one. */
export function useTheme(): readonly [Theme, () => void] {
  const [shown, setShown] = useState(theme);
  useLayoutEffect(() => followTheme(setShown), []);
  return [shown, useStable(() => setShown(switchTheme()))];
}
