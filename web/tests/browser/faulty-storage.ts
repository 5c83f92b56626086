/** Makes a worker's storage of KV pages fail once, as browsers' does. */

/** What of storage fails, and how: errors as browsers name them. */
export interface StorageFault {
  readonly kind: keyof StorageCounts;
  /** Which of that kind, counted from 1 as the worker begins. */
  readonly nth: number;
  readonly error: string;
}

/** Times that files of pages were read, written or removed, or tried to be. */
export interface StorageCounts {
  readonly read: number;
  readonly write: number;
  readonly delete: number;
}

export interface StorageTold extends StorageCounts {
  /** What failed; null as long as nothing did. */
  readonly failed: string | null;
}

/** Runs in the browser, from its text: it may use nothing of this file. */
export function faultyStorage(fault: StorageFault | null): void {
  const told = { read: 0, write: 0, delete: 0, failed: null as string | null };
  Object.assign(globalThis, { storageTold: told });
  /** What belongs to the pages: folders, files, what gives access to them. */
  const ours = new WeakSet<object>();
  /** Counts a call; the error that it fails with, if it does. */
  const counted = (kind: keyof StorageCounts, what: string) => {
    told[kind] += 1;
    if (fault?.kind !== kind || told[kind] !== fault.nth) return null;
    told.failed = what;
    return new DOMException("The test's storage fails.", fault.error);
  };
  // biome-ignore lint/suspicious/noExplicitAny: methods are wrapped whatever they take
  type Method = (...args: any[]) => any;
  const own = (made: unknown) => {
    if (typeof made === "object" && made) ours.add(made);
    return made;
  };
  const wrap = (
    prototype: object,
    name: string,
    kind: (...args: unknown[]) => keyof StorageCounts | null,
  ) => {
    const real: Method = Reflect.get(prototype, name);
    Reflect.set(prototype, name, function (this: object, ...args: unknown[]) {
      const pages = ours.has(this) || args[0] === "edgewise-pages";
      const counts = pages ? kind(...args) : null;
      const error = counts && counted(counts, `${prototype.constructor.name}.${name}`);
      const waits = !(this instanceof FileSystemSyncAccessHandle) && name !== "keys";
      if (error && waits) return Promise.reject(error);
      if (error) throw error;
      const made = real.apply(this, args);
      if (!pages || !made) return made;
      return made instanceof Promise ? made.then(own) : own(made);
    });
  };
  const writes = () => "write" as const;
  const reads = () => "read" as const;
  const makes = (_: unknown, options: unknown) =>
    typeof options === "object" && options && Reflect.get(options, "create") ? "write" : "read";
  wrap(FileSystemDirectoryHandle.prototype, "getDirectoryHandle", makes);
  wrap(FileSystemDirectoryHandle.prototype, "getFileHandle", makes);
  wrap(FileSystemDirectoryHandle.prototype, "removeEntry", () => "delete");
  wrap(FileSystemDirectoryHandle.prototype, "keys", reads);
  wrap(FileSystemFileHandle.prototype, "getFile", reads);
  wrap(Blob.prototype, "arrayBuffer", reads);
  for (const name of ["createSyncAccessHandle", "move"]) {
    wrap(FileSystemFileHandle.prototype, name, writes);
  }
  for (const name of ["truncate", "write", "flush"]) {
    wrap(FileSystemSyncAccessHandle.prototype, name, writes);
  }
  wrap(FileSystemSyncAccessHandle.prototype, "close", () => null);
}
