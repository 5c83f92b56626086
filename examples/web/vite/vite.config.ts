import { defineConfig } from "vite";

// `edgewise serve` behind this server's own origin: pages need no CORS for it.
const proxy = { "/bundles": "http://127.0.0.1:8321" };

export default defineConfig({
  worker: { format: "es" },
  optimizeDeps: { exclude: ["edgewise"] }, // it starts its worker from where its own file lies
  server: { proxy },
  preview: { proxy },
});
