/** Whether the page's address asks for its GPU to be lent: then a model loads by itself, too. */
export function asksToLend(): boolean {
  return new URLSearchParams(location.search).has("lend");
}
