/** What a key that is pressed in a field of text comes to. */

type Pressed = Pick<KeyboardEvent, "key" | "shiftKey" | "isComposing" | "keyCode">;

/** The code of keys that belong to a composition, as of Chinese or Japanese. */
const COMPOSITION = 229;

/** Whether it ends what is written: Enter alone, and not the one that ends a composition. */
export function ends({ key, shiftKey, isComposing, keyCode }: Pressed): boolean {
  // In Safari a composition has ended before its Enter comes, which then has only this code.
  return key === "Enter" && !shiftKey && !isComposing && keyCode !== COMPOSITION;
}
