/**
 * Ask that the browser does not evict what this origin keeps. Only a window can ask, and workers write what
 * is kept. The browser may say no, or leave the question to a person, who is not waited for.
 */
export function askToKeep(): void {
  globalThis.navigator?.storage?.persist?.().catch(() => false);
}
