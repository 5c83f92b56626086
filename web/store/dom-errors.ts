/** What browsers mean by errors of their storage. */

export function isMissing(error: unknown): boolean {
  return hasName(error, "NotFoundError");
}

export function isFull(error: unknown): boolean {
  return hasName(error, "QuotaExceededError");
}

/** The file was replaced or removed after it was opened; browsers do not agree on the name. */
export function isReplaced(error: unknown): boolean {
  return hasName(error, "NotReadableError") || isMissing(error);
}

/** Somebody else, such as another tab, has the file open for writing. */
export function isLocked(error: unknown): boolean {
  return hasName(error, "NoModificationAllowedError");
}

/** As `isLocked`, in WebKit's words where a file is opened for synchronous access. */
export function isBusy(error: unknown): boolean {
  return hasName(error, "InvalidStateError");
}

/** What WebKit says where a file is moved onto another; it gives no other reason. */
export function isUnknown(error: unknown): boolean {
  return hasName(error, "UnknownError");
}

/** A note is a convenience: one that the browser does not write, whatever its reason, is not. */
export async function unlessRefused(writing: Promise<void>): Promise<void> {
  try {
    await writing;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

function hasName(error: unknown, name: string): boolean {
  return error instanceof DOMException && error.name === name;
}
