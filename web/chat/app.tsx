import { useEffect, useRef, useState } from "preact/hooks";
import { Engine } from "../client/index.ts";
import type { AdapterReport, Warning } from "../client/types.ts";
import { Composer } from "./components/composer.tsx";
import { Header } from "./components/header.tsx";
import { LoadPanel } from "./components/load-panel.tsx";
import { MessageView } from "./components/message.tsx";
import { SettingsDialog } from "./components/settings.tsx";
import { Sidebar } from "./components/sidebar.tsx";
import { ModelHost, type ModelState } from "./model.ts";
import { offers as askForOffers, type Offer } from "./offers.ts";
import { useTheme } from "./theme.ts";
import { useChat } from "./use-chat.ts";

const LAST_MODEL = "edgewise.model";

export function App() {
  const chat = useChat();
  const [theme, switchTheme] = useTheme();
  const [adapter, setAdapter] = useState<AdapterReport | null>(null);
  const [offers, setOffers] = useState<readonly Offer[] | null>(null);
  const [model, setModel] = useState<ModelState>({ kind: "none" });
  const [warnings, setWarnings] = useState<readonly Warning[]>([]);
  const [drawer, setDrawer] = useState(false);
  const [settings, setSettings] = useState(false);
  const host = useRef<ModelHost | null>(null);
  host.current ??= new ModelHost({
    onState: setModel,
    onWarning: (warning) =>
      setWarnings((all) => [...all.filter(({ code }) => code !== warning.code), warning]),
  });

  const load = (offer: Offer) => {
    localStorage.setItem(LAST_MODEL, offer.url);
    setWarnings([]);
    void host.current?.load(offer);
  };

  useEffect(() => {
    void Engine.probe().then(async (report) => {
      setAdapter(report);
      const { offers: found } = await askForOffers();
      setOffers(found);
      const last = found.find(({ url }) => url === localStorage.getItem(LAST_MODEL));
      if (report.available && last) load(last);
    });
  }, []);

  const engine = model.kind === "ready" ? model.engine : null;
  const ready = model.kind === "ready" && model.status !== "failed";
  const busy = chat.writing !== null;
  const { messages } = chat.current;
  return (
    <div class="app">
      <a class="skip" href="#prompt">
        Skip to the message
      </a>
      <Sidebar
        conversations={chat.conversations}
        current={chat.current.id}
        open={drawer}
        onClose={() => setDrawer(false)}
        onNew={() => {
          chat.begin();
          setDrawer(false);
        }}
        onPick={(id) => {
          chat.pick(id);
          setDrawer(false);
        }}
        onRename={(id, title) => chat.change(id, { title })}
        onRemove={chat.remove}
        onExport={() => download(chat.conversations)}
      />
      <div class="page">
        <Header
          offers={offers ?? []}
          model={model}
          adapter={adapter}
          theme={theme}
          onMenu={() => setDrawer(!drawer)}
          onPick={load}
          onSettings={() => setSettings(true)}
          onTheme={switchTheme}
        />
        <main>
          <Log>
            {messages.map((message, i) => (
              <MessageView
                key={message.id}
                message={message}
                streaming={chat.writing === message.id}
                busy={busy || !ready}
                last={i === messages.length - 1}
                onEdit={(id, text) => engine && chat.edit(engine, id, text)}
                onRegenerate={(id) => engine && chat.regenerate(engine, id)}
              />
            ))}
            {messages.length === 0 && ready && (
              <p class="hello">The model is ready. What you write stays on this device.</p>
            )}
            {model.kind !== "ready" && (
              <LoadPanel
                model={model}
                offers={offers}
                adapter={adapter}
                onLoad={load}
                onCancel={() => host.current?.cancel()}
              />
            )}
          </Log>
        </main>
        <div class="below">
          {warnings.map((warning) => (
            <p class="banner" key={warning.code} data-testid="warning">
              {warning.message} {warning.remedy}
              <button
                type="button"
                class="icon small"
                aria-label="Dismiss"
                onClick={() => setWarnings(warnings.filter((other) => other !== warning))}
              >
                ×
              </button>
            </p>
          ))}
          {chat.failure && (
            <p class="banner bad" role="alert" data-testid="error">
              {chat.failure.message} {chat.failure.remedy}
              <button type="button" class="icon small" aria-label="Dismiss" onClick={chat.dismiss}>
                ×
              </button>
            </p>
          )}
          <div id="prompt">
            <Composer
              ready={ready}
              busy={busy}
              conversation={chat.current.id}
              onSend={(text) => engine && chat.send(engine, text)}
              onStop={chat.stop}
            />
          </div>
        </div>
      </div>
      <p class="hidden" aria-live="polite">
        {chat.finished}
      </p>
      {settings && (
        <SettingsDialog
          conversation={chat.current}
          onChange={(changes) => chat.change(chat.current.id, changes)}
          onClose={() => setSettings(false)}
        />
      )}
    </div>
  );
}

/** The messages; stays at the end while it grows, unless a person scrolled up. */
function Log({ children }: { readonly children: preact.ComponentChildren }) {
  const log = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const element = log.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  });
  return (
    <div
      class="log"
      ref={log}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
    >
      {children}
    </div>
  );
}

function download(conversations: readonly unknown[]): void {
  const text = JSON.stringify({ version: 1, conversations }, null, 1);
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = "edgewise-conversations.json";
  link.click();
  URL.revokeObjectURL(url);
}
