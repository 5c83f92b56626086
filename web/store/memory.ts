import type { Store, StoredBlob } from "./store.ts";

/** For browsers that keep nothing: notes last as long as the page, blobs are not kept at all. */
export class MemoryStore implements Store {
  readonly kind = "memory";
  private readonly named = new Map<string, Uint8Array<ArrayBuffer>>();

  async has(): Promise<boolean> {
    return false;
  }

  async read(): Promise<null> {
    return null;
  }

  async write(): Promise<void> {}

  async readPartial(): Promise<null> {
    return null;
  }

  async writePartial(): Promise<void> {}

  async remove(): Promise<void> {}

  async list(): Promise<readonly StoredBlob[]> {
    return [];
  }

  async listPartial(): Promise<readonly StoredBlob[]> {
    return [];
  }

  async note(key: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return this.named.get(key)?.slice() ?? null;
  }

  async setNote(key: string, data: Uint8Array): Promise<void> {
    this.named.set(key, data.slice());
  }

  async notes(): Promise<readonly string[]> {
    return [...this.named.keys()];
  }

  async removeNote(key: string): Promise<void> {
    this.named.delete(key);
  }

  async clear(): Promise<void> {
    this.named.clear();
  }
}
