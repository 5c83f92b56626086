/**
 * Tells, now and whenever it changes, whether the page is seen; call what it returns to end that.
 *
 * Systems take the GPU away from pages in the background, so the engine must know.
 */
export function followVisibility(tell: (visible: boolean) => void): () => void {
  const look = () => tell(document.visibilityState !== "hidden");
  look();
  document.addEventListener("visibilitychange", look);
  return () => document.removeEventListener("visibilitychange", look);
}
