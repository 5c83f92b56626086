/** Parts of the app that are loaded when something needs them. */

import { useEffect, useState } from "preact/hooks";

export interface Lazy<T> {
  /** What was loaded. */
  readonly value: T | null;
  load(): Promise<T>;
}

export function lazy<T>(fetch: () => Promise<T>): Lazy<T> {
  let value: T | null = null;
  let loading: Promise<T> | null = null;
  return {
    get value() {
      return value;
    },
    load() {
      loading ??= fetch().then(
        (loaded) => {
          value = loaded;
          return loaded;
        },
        (error: unknown) => {
          // The next one to need it tries again.
          loading = null;
          throw error;
        },
      );
      return loading;
    },
  };
}

/** What was loaded, null until then and where it cannot be: the app goes on without. */
export function useLazy<T>(part: Lazy<T>, needed: boolean): T | null {
  const [value, setValue] = useState(() => part.value);
  useEffect(() => {
    if (!needed || value !== null) return;
    let wanted = true;
    part.load().then(
      (loaded) => wanted && setValue(() => loaded),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [part, needed, value]);
  return needed ? value : null;
}
