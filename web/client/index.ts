export { EdgewiseError } from "../errors.ts";
export { Engine } from "./engine.ts";
export { type Lendable, type Lending, type LendOptions, type LendState, lend } from "./lend.ts";
export { answerMessage, toolResult } from "./messages.ts";
export type * from "./types.ts";
