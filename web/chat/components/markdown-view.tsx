import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { type Block, blocks } from "../markdown.ts";

/** Markdown, of which only the blocks that changed are made anew. */
export function MarkdownView({ text }: { readonly text: string }) {
  const shown = useMemo(() => blocks(text), [text]);
  return (
    <div class="markdown">
      {shown.map((block, i) => (
        // Blocks are only ever added at the end, or change where they are.
        <BlockView key={i} block={block} />
      ))}
    </div>
  );
}

const BlockView = memo(
  function BlockView({ block }: { readonly block: Block }) {
    return <div dangerouslySetInnerHTML={{ __html: block.html() }} />;
  },
  (before, after) => before.block.key === after.block.key,
);
