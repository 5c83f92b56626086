/** Pages that nobody owns hold nothing from then on: whoever looks at one all the same is found out. */

import { vi } from "vitest";
import { PagePool } from "../../engine/pages.ts";

/** Begin with it, told what to do with pages that nobody owns; returns a way to end it. */
export function poisoning(poison: (pages: readonly number[]) => void): () => void {
  const { release } = PagePool.prototype;
  const spy = vi.spyOn(PagePool.prototype, "release").mockImplementation(function (
    this: PagePool,
    pages,
  ) {
    release.call(this, pages);
    poison(pages.filter((page) => this.owners(page) === 0));
  });
  return () => spy.mockRestore();
}
