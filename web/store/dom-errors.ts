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

/** A note is a convenience: one for which there is no room, or that another tab writes just now, is not. */
export async function unlessRefused(writing: Promise<void>): Promise<void> {
  try {
    await writing;
  } catch (error) {
    if (!isFull(error) && !isLocked(error)) throw error;
  }
}

function hasName(error: unknown, name: string): boolean {
  return error instanceof DOMException && error.name === name;
}
