/** What browsers mean by errors of their storage. */

export function isMissing(error: unknown): boolean {
  return hasName(error, "NotFoundError");
}

export function isFull(error: unknown): boolean {
  return hasName(error, "QuotaExceededError");
}

/** Somebody else, such as another tab, has the file open for writing. */
export function isLocked(error: unknown): boolean {
  return hasName(error, "NoModificationAllowedError");
}

function hasName(error: unknown, name: string): boolean {
  return error instanceof DOMException && error.name === name;
}
