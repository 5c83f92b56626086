import { memo } from "preact/compat";
import { lazy, useLazy } from "../lazy.ts";
import type { Formula } from "../tex.ts";
import { MarkupView } from "./markup-view.tsx";

const mathematics = lazy(async () => (await import("../math.ts")).mathml);

/** Characters of a formula that may not fit into a line of a phone. */
const LONG = 60;

/** A formula; as it was written while what sets it is not there, and where it is none. */
export const FormulaView = memo(
  function FormulaView({ formula: { raw, tex, display } }: { readonly formula: Formula }) {
    const set = useLazy(mathematics, true)?.(tex, display);
    if (!set) return <code class="tex">{raw.trim()}</code>;
    const drawn = <MarkupView markup={set} />;
    if (!display && tex.length < LONG) return <span class="formula">{drawn}</span>;
    return (
      // biome-ignore lint/a11y/useSemanticElements: a fieldset is for what is filled in
      <span
        class={display ? "formula display" : "formula long"}
        dir="ltr"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is scrolled by keys too
        tabIndex={0}
        role="group"
        aria-label="Formula"
      >
        {drawn}
      </span>
    );
  },
  (before, after) => before.formula.raw === after.formula.raw,
);
