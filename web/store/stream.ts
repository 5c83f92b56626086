/** Reading streams part by part, also in browsers whose streams cannot be iterated (docs/browsers.md). */

/**
 * Hand a stream's parts to `onPart` in order, until it ends or `onPart` says `false`. What is not read
 * is cancelled, also where `onPart` throws.
 *
 * @throws whatever the stream fails with, and whatever `onPart` throws.
 */
export async function eachPart<T>(
  stream: ReadableStream<T>,
  onPart: (part: T) => boolean,
): Promise<void> {
  const reader = stream.getReader();
  let ended = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      ended = done;
      if (done || !onPart(value)) return;
    }
  } finally {
    // A stream that failed has nothing to cancel, and says so.
    if (!ended) await reader.cancel().catch(() => undefined);
  }
}
