import { useState } from "preact/hooks";
import type { Attachment } from "../files.ts";
import { bytes } from "../format.ts";
import { Icon } from "./icons.tsx";

/** Files that a question was asked about, folded away: their text is only drawn for who unfolds it. */
export function MessageFiles({ files }: { readonly files: readonly Attachment[] }) {
  return (
    <ul class="files" aria-label="Attached files">
      {files.map((file, at) => (
        <li key={at}>
          <FileView file={file} />
        </li>
      ))}
    </ul>
  );
}

function FileView({ file: { name, text } }: { readonly file: Attachment }) {
  const [open, setOpen] = useState(false);
  return (
    <details
      data-testid="message-file"
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary class="chip">
        <Icon name="file" />
        <span class="name" dir="auto">
          {name}
        </span>
        <small>{bytes(new Blob([text]).size)}</small>
      </summary>
      {/* What scrolls has to be reached by keys. */}
      {/* biome-ignore-start lint/a11y: a text is no form */}
      {open && (
        <pre tabIndex={0} role="group" aria-label={name} dir="auto">
          {text}
        </pre>
      )}
      {/* biome-ignore-end lint/a11y: a text is no form */}
    </details>
  );
}
