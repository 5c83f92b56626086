import { useState } from "preact/hooks";
import { createColouring } from "../colours.ts";
import { lazy, useLazy } from "../lazy.ts";
import { MarkupView } from "./markup-view.tsx";

interface Props {
  readonly code: string;
  /** What its author called the language; empty where nothing was said. */
  readonly language: string;
  /** Whether more of it comes. */
  readonly growing: boolean;
}

const highlighter = lazy(async () => (await import("../highlight.ts")).highlight);

/** Code, in colours where its language is known, with a button that copies it. */
export function CodeBlock({ code, language, growing }: Props) {
  const highlight = useLazy(highlighter, language !== "");
  const [colour] = useState(createColouring);
  const { length, colours } = highlight
    ? colour(code, language.toLowerCase(), growing, highlight)
    : { length: 0, colours: [] };
  return (
    <figure class="code" dir="ltr">
      <figcaption>
        <span>{language}</span>
        <button type="button" class="copy" data-testid="copy-code">
          Copy
        </button>
      </figcaption>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for what is filled in */}
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is scrolled by keys too
        tabIndex={0}
        role="group"
        aria-label={language === "" ? "Code" : `Code in ${language}`}
      >
        <code>
          <MarkupView markup={colours} />
          {code.slice(length)}
        </code>
      </pre>
    </figure>
  );
}
