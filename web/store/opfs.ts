/** Blobs as files of the origin's private file system. */

import type { Store, StoredBlob } from "./store.ts";

const ROOT = "edgewise";
const TEMPORARY = ".tmp";

/** A file that can perhaps be moved: not every browser can. */
type Handle = FileSystemFileHandle & {
  move?(folder: FileSystemDirectoryHandle, name: string): Promise<void>;
};

/** A store in the origin's private file system, or null where there is none that can be written. */
export async function openOpfs(): Promise<Store | null> {
  try {
    const origin = await navigator.storage.getDirectory();
    const root = await origin.getDirectoryHandle(ROOT, { create: true });
    const store = await FileStore.open(root);
    await store.setNote("probe", new Uint8Array([1]));
    return store;
  } catch {
    return null;
  }
}

/**
 * A store in a directory.
 *
 * A file is written under a temporary name and then moved, so that a blob's name is there only with
 * all of it. Temporary names are drawn at random: two tabs that fetch the same blob do not meet.
 */
export class FileStore implements Store {
  readonly kind = "opfs";
  private readonly blobs: FileSystemDirectoryHandle;
  private readonly partials: FileSystemDirectoryHandle;
  private readonly named: FileSystemDirectoryHandle;

  private constructor(
    blobs: FileSystemDirectoryHandle,
    partials: FileSystemDirectoryHandle,
    named: FileSystemDirectoryHandle,
  ) {
    this.blobs = blobs;
    this.partials = partials;
    this.named = named;
  }

  static async open(root: FileSystemDirectoryHandle): Promise<FileStore> {
    const folder = (name: string) => root.getDirectoryHandle(name, { create: true });
    const store = new FileStore(
      await folder("blobs"),
      await folder("partial"),
      await folder("notes"),
    );
    await sweep(store.blobs);
    return store;
  }

  read(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return readFile(this.blobs, sha256);
  }

  async write(sha256: string, data: Uint8Array<ArrayBuffer>): Promise<void> {
    await writeFile(this.blobs, sha256, data);
    await removeFile(this.partials, sha256);
  }

  readPartial(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return readFile(this.partials, sha256);
  }

  writePartial(sha256: string, data: Uint8Array<ArrayBuffer>): Promise<void> {
    return writeFile(this.partials, sha256, data);
  }

  async remove(sha256: string): Promise<void> {
    await removeFile(this.blobs, sha256);
    await removeFile(this.partials, sha256);
  }

  async list(): Promise<readonly StoredBlob[]> {
    const found: StoredBlob[] = [];
    for await (const [name, handle] of this.blobs.entries()) {
      if (name.endsWith(TEMPORARY) || handle.kind !== "file") continue;
      const file = await (handle as FileSystemFileHandle).getFile().catch(() => null);
      if (file) found.push({ sha256: name, bytes: file.size });
    }
    return found;
  }

  note(key: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return readFile(this.named, encode(key));
  }

  setNote(key: string, data: Uint8Array): Promise<void> {
    return writeFile(this.named, encode(key), data);
  }

  async notes(): Promise<readonly string[]> {
    const found: string[] = [];
    for await (const name of this.named.keys()) {
      if (!name.endsWith(TEMPORARY)) found.push(decode(name));
    }
    return found;
  }

  removeNote(key: string): Promise<void> {
    return removeFile(this.named, encode(key));
  }
}

/** Any text as a file name, and back. */
function encode(key: string): string {
  return encodeURIComponent(key).replaceAll("%", "_-");
}

function decode(name: string): string {
  return decodeURIComponent(name.replaceAll("_-", "%"));
}

async function readFile(
  folder: FileSystemDirectoryHandle,
  name: string,
): Promise<Uint8Array<ArrayBuffer> | null> {
  try {
    const file = await (await folder.getFileHandle(name)).getFile();
    return new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

async function writeFile(
  folder: FileSystemDirectoryHandle,
  name: string,
  data: Uint8Array,
): Promise<void> {
  const temporary = `${name.slice(0, 80)}-${crypto.randomUUID()}${TEMPORARY}`;
  try {
    const handle: Handle = await folder.getFileHandle(temporary, { create: true });
    await fill(handle, data);
    if (handle.move) {
      await handle.move(folder, name);
      return;
    }
    // Without a move the copy itself is not atomic; readers compare sha256 and drop half a file.
    await fill(await folder.getFileHandle(name, { create: true }), data);
  } finally {
    await removeFile(folder, temporary);
  }
}

async function fill(handle: Handle, data: Uint8Array): Promise<void> {
  // Only workers have synchronous access, and not in every browser.
  if (typeof handle.createSyncAccessHandle === "function") {
    const access = await handle.createSyncAccessHandle();
    try {
      access.truncate(0);
      if (access.write(data as Uint8Array<ArrayBuffer>, { at: 0 }) < data.length)
        throw quotaExceeded();
      access.flush();
    } finally {
      access.close();
    }
    return;
  }
  const writable = await handle.createWritable();
  try {
    await writable.write(data as Uint8Array<ArrayBuffer>);
  } catch (error) {
    await writable.abort().catch(() => undefined);
    throw error;
  }
  await writable.close();
}

async function removeFile(folder: FileSystemDirectoryHandle, name: string): Promise<void> {
  try {
    await folder.removeEntry(name);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Remove what a tab left that was closed while it wrote; files still open stay. */
async function sweep(folder: FileSystemDirectoryHandle): Promise<void> {
  const names: string[] = [];
  for await (const name of folder.keys()) if (name.endsWith(TEMPORARY)) names.push(name);
  for (const name of names) await removeFile(folder, name).catch(() => undefined);
}

function isMissing(error: unknown): boolean {
  return error instanceof DOMException && error.name === "NotFoundError";
}

function quotaExceeded(): DOMException {
  return new DOMException("The origin's storage is full.", "QuotaExceededError");
}
