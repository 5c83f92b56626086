import { render } from "preact";
import { memo } from "preact/compat";
import { useMemo, useState } from "preact/hooks";
import { type Block, blocks, createReader } from "../blocks.ts";
import { elementOf } from "./elements.tsx";

interface Props {
  readonly text: string;
  /** Whether more of it comes. */
  readonly growing?: boolean;
}

/** Markdown, of which only the blocks that changed are read and made anew. */
export function MarkdownView({ text, growing = false }: Props) {
  const [reader] = useState(createReader);
  const shown = useMemo(
    () => (growing ? reader.read(text) : blocks(text)),
    [reader, text, growing],
  );
  return (
    <div class="markdown">
      {shown.map((block, i) => (
        // Blocks are only ever added at the end, or change where they are.
        <BlockView key={i} block={block} growing={growing && i === shown.length - 1} />
      ))}
    </div>
  );
}

const BlockView = memo(
  function BlockView({ block, growing }: { readonly block: Block; readonly growing: boolean }) {
    return (
      <div dir="auto">
        {elementOf(block, growing)}
        {"\n"}
      </div>
    );
  },
  (before, after) => before.block.key === after.block.key && before.growing === after.growing,
);

/** The text without marks, as it is read aloud: what a person would see of it, but no captions. */
export function spoken(markdown: string): string {
  const page = document.createElement("div");
  render(<MarkdownView text={markdown} />, page);
  for (const caption of page.querySelectorAll("figcaption")) caption.remove();
  const text = page.textContent ?? "";
  render(null, page);
  return text;
}
