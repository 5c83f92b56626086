import { useEffect, useState } from "preact/hooks";

type Theme = "light" | "dark";
const KEY = "edgewise.theme";
const DARK = "(prefers-color-scheme: dark)";

/** The theme: the system's, until a person chooses. */
export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(chosen() ?? system());
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    const media = matchMedia(DARK);
    const follow = () => {
      if (chosen() === null) setTheme(system());
    };
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  const change = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem(KEY, next);
    setTheme(next);
  };
  return [theme, change];
}

function chosen(): Theme | null {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : null;
}

function system(): Theme {
  return matchMedia(DARK).matches ? "dark" : "light";
}
