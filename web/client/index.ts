export { EdgewiseError } from "../errors.ts";
export { Engine } from "./engine.ts";
export { answerMessage, toolResult } from "./messages.ts";
export type * from "./types.ts";
