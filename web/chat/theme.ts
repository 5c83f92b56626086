/** The theme: the system's until a person chooses the other one. */

import { prefer, preference } from "./preferences.ts";

export type Theme = "light" | "dark";

const DARK = "(prefers-color-scheme: dark)";

/** The theme shown now. */
export function theme(): Theme {
  const chosen = preference("edgewise.theme");
  return chosen === "light" || chosen === "dark" ? chosen : system();
}

/** Show the theme; calls back whenever the system changes it. */
export function followTheme(onChange: (theme: Theme) => void): void {
  show();
  matchMedia(DARK).addEventListener("change", () => {
    show();
    onChange(theme());
  });
}

/** Change to the other theme; back at the system's it is followed again. */
export function switchTheme(): Theme {
  const next = theme() === "dark" ? "light" : "dark";
  prefer("edgewise.theme", next === system() ? null : next);
  show();
  return next;
}

function show(): void {
  const shown = theme();
  document.documentElement.dataset.theme = shown;
  for (const meta of document.querySelectorAll<HTMLMetaElement>("meta[name=theme-color]")) {
    meta.content = getComputedStyle(document.documentElement).getPropertyValue("--page").trim();
  }
}

function system(): Theme {
  return matchMedia(DARK).matches ? "dark" : "light";
}
