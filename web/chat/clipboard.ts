/** How long a button says what came of it, in milliseconds. */
export const TOLD_MS = 1500;

/** Put a text on the clipboard; whether the browser allowed it. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A click on a code block's button copies the code beside it. */
export async function copyCode(event: Event): Promise<void> {
  const button = event.target instanceof Element ? event.target.closest("button.copy") : null;
  const code = button?.closest("figure")?.querySelector("code");
  if (!button || !code) return;
  button.textContent = (await copy(code.textContent ?? "")) ? "Copied" : "Not allowed";
  setTimeout(() => {
    button.textContent = "Copy";
  }, TOLD_MS);
}
