/**
 * The browser's file system of an origin, in memory: as much of it as the store uses, with its rules
 * about locks, room and names.
 */

type Bytes = Uint8Array<ArrayBuffer>;

interface FileNode {
  data: Bytes;
  modified: number;
  locked: boolean;
}

interface Folder {
  readonly files: Map<string, FileNode>;
  readonly folders: Map<string, Folder>;
}

export interface OriginOptions {
  /** As in a worker; otherwise files are written through `createWritable`. */
  readonly sync?: boolean;
  readonly movable?: boolean;
  /** With WebKit's words for a file that is open, and its moves, which some versions refuse onto a file. */
  readonly webkit?: boolean;
}

export interface Origin {
  readonly root: FileSystemDirectoryHandle;
  /** Bytes that all files together may have. */
  quota: number;
  /** While true there is nothing to write with, as in a window of Safari before 26. */
  mute: boolean;
  /** Called when a file that was opened is about to be read. */
  beforeRead: () => void;
  /** Handles and streams that nobody has closed yet. */
  readonly open: () => number;
  /** All files by their paths. */
  readonly files: () => ReadonlyMap<string, FileNode>;
  /** Another tab puts a file there. */
  readonly replace: (path: string, data: Bytes) => void;
}

export function makeOrigin({
  sync = true,
  movable = true,
  webkit = false,
}: OriginOptions = {}): Origin {
  const top: Folder = { files: new Map(), folders: new Map() };
  let open = 0;

  const used = (): number => [...files().values()].reduce((sum, file) => sum + file.data.length, 0);

  function files(folder = top, path = ""): Map<string, FileNode> {
    const found = new Map<string, FileNode>();
    for (const [name, file] of folder.files) found.set(path + name, file);
    for (const [name, inner] of folder.folders) {
      for (const [below, file] of files(inner, `${path}${name}/`)) found.set(below, file);
    }
    return found;
  }

  function resize(file: FileNode, data: Bytes): void {
    if (used() - file.data.length + data.length > origin.quota) fail("QuotaExceededError");
    file.data = data;
    file.modified = Date.now();
  }

  function lock(file: FileNode): () => void {
    if (file.locked) fail(webkit ? "InvalidStateError" : "NoModificationAllowedError");
    file.locked = true;
    open++;
    return () => {
      if (file.locked) open--;
      file.locked = false;
    };
  }

  function fileHandle(folder: Folder, name: string) {
    const node = (): FileNode => folder.files.get(name) ?? fail("NotFoundError");
    return {
      kind: "file",
      name,
      async getFile() {
        const opened = node();
        const file = new File([opened.data], name, { lastModified: opened.modified });
        const read = file.arrayBuffer.bind(file);
        file.arrayBuffer = async () => {
          origin.beforeRead();
          // As Chromium does: what was opened is gone once another file has its name.
          if (folder.files.get(name) !== opened) fail("NotReadableError");
          return read();
        };
        return file;
      },
      ...(sync && !origin.mute ? { createSyncAccessHandle: async () => access(node()) } : {}),
      ...(origin.mute ? {} : { createWritable: async () => writable(node()) }),
      ...(movable
        ? {
            async move(to: { readonly folder: Folder }, newName: string) {
              const moved = node();
              if (webkit && to.folder.files.has(newName)) fail("UnknownError");
              if (moved.locked || to.folder.files.get(newName)?.locked) {
                fail("NoModificationAllowedError");
              }
              folder.files.delete(name);
              to.folder.files.set(newName, moved);
            },
          }
        : {}),
    };
  }

  function access(file: FileNode) {
    const release = lock(file);
    return {
      truncate: (size: number) => resize(file, file.data.slice(0, size)),
      write(data: Bytes, { at }: { readonly at: number }) {
        const grown = new Uint8Array(Math.max(file.data.length, at + data.length));
        grown.set(file.data);
        grown.set(data, at);
        resize(file, grown);
        return data.length;
      },
      flush: () => undefined,
      close: release,
    };
  }

  function writable(file: FileNode) {
    const release = lock(file);
    let written: Bytes = new Uint8Array();
    return {
      async write(data: Bytes) {
        if (used() + data.length > origin.quota) fail("QuotaExceededError");
        written = data.slice();
      },
      async close() {
        release();
        resize(file, written);
      },
      async abort() {
        release();
      },
    };
  }

  function directoryHandle(folder: Folder): FileSystemDirectoryHandle {
    const handle = {
      kind: "directory",
      folder,
      async getDirectoryHandle(name: string, options?: FileSystemGetDirectoryOptions) {
        const inner = folder.folders.get(name);
        if (inner) return directoryHandle(inner);
        if (!options?.create) fail("NotFoundError");
        const made: Folder = { files: new Map(), folders: new Map() };
        folder.folders.set(name, made);
        return directoryHandle(made);
      },
      async getFileHandle(name: string, options?: FileSystemGetFileOptions) {
        if (name.length > 255 || name.includes("/")) throw new TypeError(`no file name: ${name}`);
        if (!folder.files.has(name)) {
          if (!options?.create) fail("NotFoundError");
          folder.files.set(name, { data: new Uint8Array(), modified: Date.now(), locked: false });
        }
        return fileHandle(folder, name);
      },
      async removeEntry(name: string) {
        const file = folder.files.get(name) ?? fail("NotFoundError");
        if (file.locked) fail("NoModificationAllowedError");
        folder.files.delete(name);
      },
      async *keys() {
        yield* [...folder.files.keys(), ...folder.folders.keys()];
      },
    };
    // The browser's type has more than the store may use.
    return handle as unknown as FileSystemDirectoryHandle;
  }

  const origin: Origin = {
    root: directoryHandle(top),
    quota: Number.POSITIVE_INFINITY,
    mute: false,
    beforeRead: () => undefined,
    open: () => open,
    files: () => files(),
    replace(path, data) {
      const [folder = "", name = ""] = path.split("/");
      const node = { data, modified: Date.now(), locked: false };
      top.folders.get(folder)?.files.set(name, node);
    },
  };
  return origin;
}

function fail(name: string): never {
  throw new DOMException(`${name} of the test's file system`, name);
}
