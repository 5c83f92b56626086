/** Which programs computed something else than they should on an adapter, remembered between visits. */

import { sha256Hex } from "../digest.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import type { Store } from "../store/store.ts";

/** What programs were found to be in this browser, on one adapter. */
export class Verdicts {
  private readonly adapter: string;
  private readonly manifest: BundleManifest;
  private readonly store: Store;

  /** @param adapter its `key`. */
  constructor(adapter: string, manifest: BundleManifest, store: Store) {
    this.adapter = adapter;
    this.manifest = manifest;
    this.store = store;
  }

  async isWrong(program: Program): Promise<boolean> {
    return (await this.store.note(await this.key(program))) !== null;
  }

  /** Remember it, so that it is not loaded again in vain. */
  async wrong(program: Program): Promise<void> {
    await this.store.setNote(await this.key(program), new TextEncoder().encode("wrong"));
  }

  /** It is right after all, or again. */
  async right(program: Program): Promise<void> {
    const key = await this.key(program);
    if ((await this.store.note(key)) !== null) await this.store.removeNote(key);
  }

  /** Another browser, another driver as far as it shows, or other shaders: another key. */
  private async key({ id, shaders }: Program): Promise<string> {
    const hashes = [...shaders.values()].map((path) => this.manifest.files.get(path)?.sha256 ?? "");
    const browser = globalThis.navigator?.userAgent ?? "";
    const code = await sha256Hex(new TextEncoder().encode(hashes.sort().join(" ")));
    return ["wrong", this.adapter, browser, id, code].join("|");
  }
}
