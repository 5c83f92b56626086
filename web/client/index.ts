export { EdgewiseError } from "../errors.ts";
export { Engine } from "./engine.ts";
export type * from "./types.ts";
