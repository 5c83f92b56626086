/** A click on a code block's button copies the code beside it. */
export function copyCode(event: Event): void {
  const button = event.target instanceof Element ? event.target.closest("button.copy") : null;
  const code = button?.closest("figure")?.querySelector("code");
  if (!button || !code) return;
  void navigator.clipboard.writeText(code.textContent ?? "").then(
    () => {
      button.textContent = "Copied";
      setTimeout(() => {
        button.textContent = "Copy";
      }, 1500);
    },
    () => {
      button.textContent = "Not allowed";
    },
  );
}
