/** Small values kept for the next visit; forgotten where the browser does not allow it. */

export type Preference =
  | "edgewise.choices"
  | "edgewise.keepPages"
  | "edgewise.lend"
  | "edgewise.loading"
  | "edgewise.model"
  | "edgewise.offers"
  | "edgewise.theme"
  | "edgewise.where";

export function preference(name: Preference): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Keep a value, or forget it. */
export function prefer(name: Preference, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // Private windows may refuse: the choice then lasts as long as the page.
  }
}

/** Bytes of KV pages that may be kept; null where nobody chose. */
export function pagesLimit(): number | null {
  const bytes = Number.parseInt(preference("edgewise.keepPages") ?? "", 10);
  return bytes >= 0 ? bytes : null;
}
