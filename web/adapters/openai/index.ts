export type * from "./answer.ts";
export {
  CreateMLCEngine,
  type MLCEngine,
  type MLCEngineOptions,
  prebuiltAppConfig,
} from "./mlc.ts";
export { type OpenAI, openai } from "./openai.ts";
export type { ChatMessage, ChatRequest, ContentPart, WebLLMFormat } from "./request.ts";
