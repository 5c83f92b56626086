/** Blobs as files of the origin's private file system. */

import { isBusy, isFull, isMissing, isReplaced, isUnknown, unlessRefused } from "./dom-errors.ts";
import { packNote, unpackNote } from "./notes.ts";
import type { Store, StoredBlob } from "./store.ts";

const ROOT = "edgewise";
const TEMPORARY = ".tmp";
/** Milliseconds after which a temporary file belongs to nobody any more. */
const ABANDONED_MS = 10 * 60_000;
const READ_ATTEMPTS = 8;

type Bytes = Uint8Array<ArrayBuffer>;

/** A file that can perhaps be moved: not every browser can. */
type Handle = FileSystemFileHandle & {
  move?(folder: FileSystemDirectoryHandle, name: string): Promise<void>;
};

/** A store in the origin's private file system, or null where there is none that can be written. */
export async function openOpfs(name = ROOT): Promise<Store | null> {
  try {
    const origin = await navigator.storage.getDirectory();
    const root = await origin.getDirectoryHandle(name, { create: true });
    await tryWriting(root);
    return await FileStore.open(root);
  } catch {
    return null;
  }
}

/**
 * A full file system is one all the same: what it keeps can be read. So is one in a window that has nothing
 * to write with: what a worker keeps can be listed and removed there.
 */
async function tryWriting(root: FileSystemDirectoryHandle): Promise<void> {
  const name = `${crypto.randomUUID()}${TEMPORARY}`;
  try {
    const handle = await root.getFileHandle(name, { create: true });
    if (isWritable(handle)) await fill(handle, new Uint8Array([1]));
  } catch (error) {
    if (!isFull(error)) throw error;
  } finally {
    await removeFile(root, name).catch(() => undefined);
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

  /** @param root a folder of the store's own. */
  static async open(root: FileSystemDirectoryHandle): Promise<FileStore> {
    const folder = (name: string) => root.getDirectoryHandle(name, { create: true });
    const store = new FileStore(
      await folder("blobs"),
      await folder("partial"),
      await folder("notes"),
    );
    for (const swept of [root, ...store.folders]) await sweep(swept, ABANDONED_MS);
    return store;
  }

  private get folders(): readonly FileSystemDirectoryHandle[] {
    return [this.blobs, this.partials, this.named];
  }

  async has(sha256: string): Promise<boolean> {
    return (await sizeOf(this.blobs, sha256)) !== null;
  }

  read(sha256: string): Promise<Bytes | null> {
    return readFile(this.blobs, sha256);
  }

  async write(sha256: string, data: Bytes): Promise<void> {
    // First: where room is short, the blob may need that of its own beginning.
    await removeFile(this.partials, sha256).catch(() => undefined);
    await writeFile(this.blobs, sha256, data);
  }

  readPartial(sha256: string): Promise<Bytes | null> {
    return readFile(this.partials, sha256);
  }

  writePartial(sha256: string, data: Bytes): Promise<void> {
    return writeFile(this.partials, sha256, data);
  }

  async remove(sha256: string): Promise<void> {
    await removeFile(this.blobs, sha256);
    await removeFile(this.partials, sha256);
  }

  list(): Promise<readonly StoredBlob[]> {
    return listFiles(this.blobs);
  }

  listPartial(): Promise<readonly StoredBlob[]> {
    return listFiles(this.partials);
  }

  async note(key: string): Promise<Bytes | null> {
    const { name } = await packNote(key, new Uint8Array());
    const file = await readFile(this.named, name);
    const found = file && unpackNote(file);
    return found?.key === key ? found.data : null;
  }

  async setNote(key: string, data: Uint8Array): Promise<void> {
    const { name, file } = await packNote(key, data);
    await unlessRefused(writeFile(this.named, name, file));
  }

  async notes(): Promise<readonly string[]> {
    const found: string[] = [];
    for (const name of await fileNames(this.named)) {
      const file = await readFile(this.named, name);
      const note = file && unpackNote(file);
      if (note) found.push(note.key);
    }
    return found;
  }

  async removeNote(key: string): Promise<void> {
    const { name } = await packNote(key, new Uint8Array());
    await removeFile(this.named, name);
  }

  async sweep(): Promise<void> {
    for (const folder of this.folders) await sweep(folder, Number.NEGATIVE_INFINITY);
  }

  /** @throws DOMException where some files stay, which others have open: all else is gone. */
  async clear(): Promise<void> {
    const failures: unknown[] = [];
    for (const folder of this.folders) {
      for (const name of await fileNames(folder)) {
        await removeFile(folder, name).catch((error) => failures.push(error));
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

async function fileNames(folder: FileSystemDirectoryHandle): Promise<string[]> {
  const names: string[] = [];
  for await (const name of folder.keys()) if (!name.endsWith(TEMPORARY)) names.push(name);
  return names;
}

async function listFiles(folder: FileSystemDirectoryHandle): Promise<readonly StoredBlob[]> {
  const found: StoredBlob[] = [];
  for (const name of await fileNames(folder)) {
    const bytes = await sizeOf(folder, name);
    if (bytes !== null) found.push({ sha256: name, bytes });
  }
  return found;
}

/** Null where the file is missing. */
async function sizeOf(folder: FileSystemDirectoryHandle, name: string): Promise<number | null> {
  return (await open(folder, name))?.size ?? null;
}

async function readFile(folder: FileSystemDirectoryHandle, name: string): Promise<Bytes | null> {
  for (let attempt = 1; ; attempt++) {
    const file = await open(folder, name);
    try {
      return file && new Uint8Array(await file.arrayBuffer());
    } catch (error) {
      // Another tab has put a new one in its place meanwhile.
      if (!isReplaced(error) || attempt === READ_ATTEMPTS) throw error;
    }
  }
}

async function open(folder: FileSystemDirectoryHandle, name: string): Promise<File | null> {
  try {
    return await (await folder.getFileHandle(name)).getFile();
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

async function writeFile(
  folder: FileSystemDirectoryHandle,
  name: string,
  data: Bytes,
): Promise<void> {
  if (await movedInto(folder, name, data)) return;
  try {
    // Not at once, then; who reads half a file meanwhile notices by its size or sha256.
    await fill(await folder.getFileHandle(name, { create: true }), data);
  } catch (error) {
    await removeFile(folder, name).catch(() => undefined);
    throw error;
  }
}

/** Whether a file could be put there at once; not every browser moves files, or onto others. */
async function movedInto(
  folder: FileSystemDirectoryHandle,
  name: string,
  data: Bytes,
): Promise<boolean> {
  const temporary = `${name}-${crypto.randomUUID()}${TEMPORARY}`;
  try {
    const handle: Handle = await folder.getFileHandle(temporary, { create: true });
    if (!handle.move) return false;
    await fill(handle, data);
    await handle.move(folder, name);
    return true;
  } catch (error) {
    if (!isUnknown(error)) throw error;
    return false;
  } finally {
    await removeFile(folder, temporary).catch(() => undefined);
  }
}

/** Only workers have synchronous access, and not every window has streams. */
function isWritable(handle: FileSystemFileHandle): boolean {
  return ["createSyncAccessHandle", "createWritable"].some((method) => method in handle);
}

async function fill(handle: Handle, data: Bytes): Promise<void> {
  if (!isWritable(handle)) {
    throw new DOMException("This page cannot write files.", "NotSupportedError");
  }
  if (typeof handle.createSyncAccessHandle === "function") {
    const access = await accessTo(handle);
    try {
      access.truncate(0);
      if (access.write(data, { at: 0 }) < data.length) {
        throw new DOMException("The origin's storage is full.", "QuotaExceededError");
      }
      access.flush();
    } finally {
      access.close();
    }
    return;
  }
  const writable = await handle.createWritable();
  try {
    await writable.write(data);
  } catch (error) {
    await writable.abort().catch(() => undefined);
    throw error;
  }
  await writable.close();
}

/** Browsers do not agree on the name of the error where somebody else has the file open. */
async function accessTo(handle: FileSystemFileHandle): Promise<FileSystemSyncAccessHandle> {
  try {
    return await handle.createSyncAccessHandle();
  } catch (error) {
    if (!isBusy(error)) throw error;
    throw new DOMException("Somebody else writes this file.", "NoModificationAllowedError");
  }
}

async function removeFile(folder: FileSystemDirectoryHandle, name: string): Promise<void> {
  try {
    await folder.removeEntry(name);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Remove what a tab left that was closed while it wrote; what others have written to since stays. */
async function sweep(folder: FileSystemDirectoryHandle, ms: number): Promise<void> {
  const names: string[] = [];
  for await (const name of folder.keys()) if (name.endsWith(TEMPORARY)) names.push(name);
  for (const name of names) {
    const file = await open(folder, name).catch(() => null);
    if (file && Date.now() - file.lastModified > ms) {
      await removeFile(folder, name).catch(() => undefined);
    }
  }
}
