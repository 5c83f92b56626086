/** Which programs computed something else than they should on an adapter, remembered between visits. */

import { sha256Hex } from "../digest.ts";
import type { BundleManifest, Program, TensorEntry } from "../format/manifest.ts";
import { PROOF } from "../format/proof.ts";
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

  /**
   * Another browser, another driver as far as it shows, or anything else in what answers come from
   * or are compared with: another key. Who borrows a program's shaders says nothing about it.
   */
  private async key(program: Program): Promise<string> {
    const { files, layouts } = this.manifest;
    const tensors = layouts.get(program.layout) ?? new Map<string, TensorEntry>();
    const read = [PROOF, ...program.shaders.values(), ...program.plans.values()];
    for (const { file } of tensors.values()) read.push(file);
    const listed = [...new Set(read)].map((path) => [path, files.get(path)]);
    const described = JSON.stringify([program, tensors, listed], (_, value) =>
      value instanceof Map ? [...value] : value,
    );
    const browser = globalThis.navigator?.userAgent ?? "";
    const code = await sha256Hex(new TextEncoder().encode(described));
    return ["wrong", this.adapter, browser, program.id, code].join("|");
  }
}
