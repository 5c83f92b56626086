import { render } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { App } from "./app.tsx";
import { copyCode } from "./clipboard.ts";
import { failureOf } from "./failure.ts";
import { followKeyboard } from "./keyboard.ts";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";
import "./styles/panels.css";
import "./styles/message.css";
import "./styles/files.css";

/** The app, or what is left to say where it cannot be drawn. */
function Root() {
  const [error] = useErrorBoundary();
  if (error === undefined) return <App />;
  return (
    <section class="panel bad" role="alert" data-testid="error">
      <h1>This page does not work any more</h1>
      <p>{failureOf(error).message}</p>
      <p>Conversations are kept.</p>
      <button type="button" class="primary" onClick={() => location.reload()}>
        Reload
      </button>
    </section>
  );
}

const root = document.getElementById("app");
if (root) render(<Root />, root);
document.addEventListener("click", (event) => void copyCode(event));
followKeyboard(visualViewport, document.documentElement.style);

if (import.meta.env.PROD && "serviceWorker" in navigator) {
  // Without it the app only does not open offline.
  navigator.serviceWorker.register("/sw.js").catch(() => undefined);
}
