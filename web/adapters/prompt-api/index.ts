export { type LanguageModelClass, languageModel } from "./model.ts";
export type { LanguageModel } from "./session.ts";
export type * from "./types.ts";
