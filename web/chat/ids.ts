/** A new random name; also on pages that are not secure, where `crypto.randomUUID` is missing. */
export function newId(): string {
  const words = crypto.getRandomValues(new Uint32Array(4));
  return [...words].map((word) => word.toString(16).padStart(8, "0")).join("");
}
