/** Pages that nobody owns hold nothing from then on: whoever looks at one all the same is found out. */

import { vi } from "vitest";
import { PagePool } from "../../engine/pages.ts";
import type { ReferenceProgram } from "./reference.ts";

/** Begin with it, and a way to end it; it is about the program that `current` gives. */
export function poisoning(current: () => ReferenceProgram): () => void {
  const { release } = PagePool.prototype;
  const spy = vi.spyOn(PagePool.prototype, "release").mockImplementation(function (
    this: PagePool,
    pages,
  ) {
    release.call(this, pages);
    current().poison(pages.filter((page) => this.owners(page) === 0));
  });
  return () => spy.mockRestore();
}
