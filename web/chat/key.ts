/** The host's key after `#key=` in the page's address, which no server is sent; empty where there is none. */
export const key = keyInAddress();

/** It does not stay in the address, which people copy and browsers keep. */
function keyInAddress(): string {
  if (typeof location === "undefined") return "";
  const found = new URLSearchParams(location.hash.slice(1)).get("key") ?? "";
  if (found !== "") history.replaceState(null, "", location.pathname + location.search);
  return found;
}
