/** Text files that a question is asked about. */

export interface Attachment {
  readonly name: string;
  readonly text: string;
}

/** What the model is given of a question: its files, each by its name and whole, and then what is asked. */
export function withFiles(content: string, files: readonly Attachment[] = []): string {
  const shown = files.map(({ name, text }) => {
    const fence = fenceOf(text);
    return `File ${name}:\n${fence}\n${text.replace(/\n?$/, "\n")}${fence}\n`;
  });
  return [...shown, content].filter((part) => part !== "").join("\n");
}

/** Longer than any in the text: no file can end itself and go on as the question. */
function fenceOf(text: string): string {
  const runs = (text.match(/`{3,}/g) ?? []).map(({ length }) => length + 1);
  return "`".repeat(runs.reduce((a, b) => Math.max(a, b), 3));
}
