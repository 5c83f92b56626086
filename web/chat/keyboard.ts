/** What of a page an on-screen keyboard leaves. */

/** What tells how much of the page is seen; `VisualViewport` in browsers. */
export interface Seen extends EventTarget {
  readonly height: number;
  readonly scale: number;
}

/**
 * Keeps the height that is seen in `--seen`. Where a keyboard covers the page instead of making it smaller,
 * as in Safari, the message would be written under it.
 */
export function followKeyboard(
  seen: Seen | null,
  style: Pick<CSSStyleDeclaration, "setProperty">,
): void {
  if (!seen) return;
  const follow = () => {
    // Who zooms in sees less of a page that is as high as before.
    style.setProperty("--seen", `${Math.round(seen.height * seen.scale)}px`);
  };
  seen.addEventListener("resize", follow);
  follow();
}
