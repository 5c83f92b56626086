import { lazy, useLazy } from "../lazy.ts";

/** What draws markdown: it comes after the page, which begins without answers to draw. */
export const drawing = lazy(() => import("./markdown-view.tsx"));

interface Props {
  readonly text: string;
  /** Whether more of it comes. */
  readonly growing?: boolean;
}

/** Markdown; as it was written while what draws it is not there. */
export function MarkedText(props: Props) {
  const drawn = useLazy(drawing, props.text !== "");
  if (drawn) return <drawn.MarkdownView {...props} />;
  return (
    <div class="markdown">
      <span class="plain">{props.text}</span>
    </div>
  );
}
