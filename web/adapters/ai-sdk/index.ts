export { createEdgewise, type EdgewiseProvider } from "./provider.ts";
