import { type ComponentChildren, h } from "preact";
import { memo } from "preact/compat";
import type { Markup } from "../markup.ts";

/** Elements that a library described; the same description is drawn once. */
export const MarkupView = memo(function MarkupView({
  markup,
}: {
  readonly markup: readonly Markup[];
}) {
  return <>{drawn(markup)}</>;
});

function drawn(markup: readonly Markup[]): ComponentChildren {
  return markup.map((part) =>
    typeof part === "string" ? part : h(part.tag, part.attributes, drawn(part.children)),
  );
}
