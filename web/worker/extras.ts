/** What an engine has only where it was asked for, loaded then. */

import { checkDraft } from "../engine/check.ts";
import type { EngineOptions } from "../engine/engine.ts";
import type { LoadRequest } from "./protocol.ts";

export type Extras = Pick<EngineOptions, "drafter" | "trace">;

/** @throws EdgewiseError `input.draft` for another way to guess tokens than there is. */
export async function extrasOf({
  draft,
  trace = false,
}: Pick<LoadRequest, "draft" | "trace">): Promise<Extras> {
  if (draft !== undefined) checkDraft(draft);
  const drafts = draft === undefined ? null : await import("../engine/drafts/drafting.ts");
  const traces = trace ? await import("../engine/metrics/trace.ts") : null;
  return {
    ...(drafts ? { drafter: drafts.lookupDrafts } : {}),
    ...(traces ? { trace: new traces.Trace() } : {}),
  };
}
