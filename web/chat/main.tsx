import { render } from "preact";
import { App } from "./app.tsx";
import { copyCode } from "./clipboard.ts";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/layout.css";
import "./styles/panels.css";
import "./styles/message.css";

const root = document.getElementById("app");
if (root) render(<App />, root);
document.addEventListener("click", (event) => void copyCode(event));

if (import.meta.env.PROD && "serviceWorker" in navigator) {
  // Without it the app only does not open offline.
  navigator.serviceWorker.register("/sw.js").catch(() => undefined);
}
