import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { currentOf } from "./book.ts";
import { shownOf } from "./branches.ts";
import { Banners } from "./components/banners.tsx";
import { Composer } from "./components/composer.tsx";
import { ContextMeter } from "./components/context-meter.tsx";
import { Header } from "./components/header.tsx";
import { LoadPanel } from "./components/load-panel.tsx";
import { summary } from "./components/loaded.tsx";
import { Log } from "./components/log.tsx";
import { drawing } from "./components/marked-text.tsx";
import { Messages } from "./components/messages.tsx";
import { Sidebar } from "./components/sidebar.tsx";
import { WhereControl } from "./components/where.tsx";
import { tokensOf } from "./conversations.ts";
import type { Attachment } from "./files.ts";
import type { Answers } from "./going-on.ts";
import { useChat, useModels, useStable, useTheme } from "./hooks.ts";
import { useHost } from "./host.ts";
import { lazy, useLazy } from "./lazy.ts";
import { useLending } from "./lending.ts";
import type { Measured } from "./measure.ts";
import { modelDefaults } from "./storage.ts";

const interruption = lazy(async () => (await import("./components/interrupted.tsx")).Interrupted);
const lent = lazy(async () => (await import("./components/lent.tsx")).Lent);
const dialog = lazy(async () => (await import("./components/settings.tsx")).SettingsDialog);

export function App() {
  const [state, chat] = useChat();
  const models = useModels();
  const [theme, switchTheme] = useTheme();
  const [drawer, setDrawer] = useState(false);
  const [settings, setSettings] = useState(false);
  const { model } = models;
  const local = model.kind === "ready" && model.status !== "failed" ? model.engine : null;
  const here = model.kind === "none" ? null : model.offer;
  const host = useHost(models.offers, here, models.adapter);
  const isHost = host.where === "host";
  const engine: Answers | null = isHost ? host.answers : local;
  const offer = isHost ? host.offer : here;
  // Loaded before the host can be out of reach.
  const SettingsDialog = useLazy(dialog, settings || engine !== null);
  const Interrupted = useLazy(interruption, models.interrupted !== null);
  const lending = useLending(local, here, models.offers?.tabs === true);
  const Lent = useLazy(lent, lending.on);
  const maxTokens = useMaxTokens(engine ? offer : null);

  const conversation = currentOf(state.book);
  const writing = state.writing.get(conversation.id);
  const failure = state.failures.get(conversation.id) ?? null;
  const said = shownOf(conversation);
  const idle = engine !== null && writing === undefined;

  const edit = useStable((id: string, text: string) => {
    if (engine) void chat.edit(engine, id, text, maxTokens);
  });
  const regenerate = useStable(() => {
    if (engine) void chat.regenerate(engine, maxTokens);
  });
  const goOn = useStable(() => {
    if (engine) void chat.goOn(engine, maxTokens);
  });
  const retry = useStable(() => {
    if (engine) void chat.retry(engine, maxTokens);
  });
  useEffect(() => void drawing.load().catch(() => undefined), []);
  useEffect(() => {
    if (engine) void chat.resume(engine, maxTokens);
  }, [chat, engine, maxTokens]);
  const measure = useCallback(
    async (text: string, files: readonly Attachment[]): Promise<Measured> => {
      if (!engine) return null;
      const { measured } = await import("./measure.ts");
      return measured(engine, conversation, text, files, maxTokens);
    },
    [engine, conversation, maxTokens],
  );
  const closeDrawer = useStable(() => setDrawer(false));
  useFocusAfter(drawer, ".menu");
  useWide(closeDrawer);
  const load = useStable((chosen: Parameters<typeof models.load>[0]) => {
    chat.stopAll();
    models.load(chosen);
  });
  useEscape(writing ? chat.stop : null);
  const warnings = state.unkept ? [...models.warnings, state.unkept] : models.warnings;

  return (
    <div class="app">
      <a class="skip" href="#message">
        Skip to the message
      </a>
      <Sidebar
        book={state.book}
        open={drawer}
        onClose={closeDrawer}
        onNew={useStable(() => {
          chat.begin();
          setDrawer(false);
        })}
        onPick={useStable((id: string) => {
          chat.pick(id);
          setDrawer(false);
        })}
        onFind={useStable((id: string, message: string | null) => {
          chat.find(id, message);
          setDrawer(false);
          requestAnimationFrame(() => document.getElementById(`said-${message}`)?.scrollIntoView());
        })}
        onRename={chat.rename}
        onRemove={chat.remove}
      />
      <div class="page" inert={drawer}>
        <Header
          offers={models.offers?.offers ?? NONE}
          kept={models.kept}
          model={model}
          adapter={models.adapter}
          host={host}
          theme={theme}
          drawer={drawer}
          onMenu={useStable(() => setDrawer(true))}
          onPick={isHost ? host.pick : load}
          onSettings={useStable(() => setSettings(true))}
          onTheme={switchTheme}
        />
        <main>
          <h1 class="hidden">{conversation.title}</h1>
          <Log conversation={conversation.id}>
            <Messages
              conversation={conversation}
              writing={writing}
              engine={engine}
              onEdit={edit}
              onRegenerate={regenerate}
              onGoOn={goOn}
              onTurn={chat.turn}
            />
            {said.length === 0 && !writing && engine && (
              <div class="hello">
                <h1>What is on your mind?</h1>
                {isHost || !local ? (
                  <p>{offer?.name} runs on the host. What you write is sent there.</p>
                ) : (
                  <>
                    <p>{local.info.name} runs on this device. What you write stays here.</p>
                    <p class="note">{summary(local.info)}</p>
                  </>
                )}
              </div>
            )}
            {!engine && !isHost && models.interrupted && Interrupted && (
              <Interrupted offer={models.interrupted} onLoad={load} onLoadLess={models.loadLess} />
            )}
            {!engine && !isHost && (
              <LoadPanel
                model={model}
                offers={models.offers}
                kept={models.kept}
                adapter={models.adapter}
                onLoad={load}
                onCancel={models.cancel}
                onAskAgain={models.askAgain}
              />
            )}
          </Log>
          <div class="below">
            {Lent && <Lent lending={lending} />}
            <WhereControl host={host} />
            <Banners
              failure={failure}
              warnings={warnings}
              removed={state.removed}
              onRetry={idle ? retry : null}
              onDismissFailure={() => chat.dismiss("failure")}
              onDismissWarning={(warning) =>
                warning === state.unkept ? chat.dismiss("unkept") : models.dismiss(warning)
              }
              onUndo={chat.undo}
              onDismissRemoved={() => chat.dismiss("removed")}
            />
            <Composer
              ready={engine !== null}
              busy={writing !== undefined}
              conversation={conversation.id}
              measure={engine ? measure : null}
              onSend={(text, files) => engine && void chat.send(engine, text, maxTokens, files)}
              onStop={chat.stop}
            />
            {engine && tokensOf(said) > 0 && (
              <ContextMeter used={tokensOf(said)} context={engine.info.context} />
            )}
          </div>
        </main>
      </div>
      <Announcer text={state.finished} />
      {settings && SettingsDialog && (
        <SettingsDialog
          key={conversation.id}
          book={state.book}
          conversation={conversation}
          offer={offer}
          onChange={chat.configure}
          model={model}
          adapter={models.adapter}
          lending={models.offers?.tabs ? lending : null}
          onLoad={load}
          onAdd={chat.add}
          onStorage={models.look}
          onClose={() => setSettings(false)}
        />
      )}
    </div>
  );
}

const NONE: readonly never[] = [];

/** Reads a finished answer to who cannot see it; not each of its words as it comes. */
function Announcer({ text }: { readonly text: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    setSaid("");
    if (text === "") return;
    let wanted = true;
    drawing.load().then(
      ({ spoken }) => wanted && setSaid(spoken(text)),
      () => wanted && setSaid(text),
    );
    return () => {
      wanted = false;
    };
  }, [text]);
  return (
    <p class="hidden" aria-live="polite">
      {said}
    </p>
  );
}

/** How long the model says an answer may be. */
function useMaxTokens(offer: Parameters<typeof modelDefaults>[0] | null): number | undefined {
  const [most, setMost] = useState<number | undefined>(undefined);
  useEffect(() => {
    setMost(undefined);
    if (offer) void modelDefaults(offer).then((found) => setMost(found?.maxTokens));
  }, [offer]);
  return most;
}

/** Calls `act` when there is room for the conversations beside the page. */
function useWide(act: () => void): void {
  useEffect(() => {
    const media = matchMedia("(width > 48rem)");
    media.addEventListener("change", act);
    return () => media.removeEventListener("change", act);
  }, [act]);
}

/** Gives the focus to what opened something once that is closed. */
function useFocusAfter(open: boolean, opener: string): void {
  const was = useRef(open);
  useEffect(() => {
    if (was.current && !open) document.querySelector<HTMLElement>(opener)?.focus();
    was.current = open;
  }, [open, opener]);
}

/** Calls `act` on Escape, wherever the focus is, unless something else there uses it. */
function useEscape(act: (() => void) | null): void {
  useEffect(() => {
    if (!act) return;
    const onKey = (event: KeyboardEvent) => {
      const taken =
        event.target instanceof Element && event.target.closest("dialog, .editing, nav");
      if (event.key === "Escape" && !taken) act();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [act]);
}
