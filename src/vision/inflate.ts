// Inflating a zlib stream whose size is known before: in Node and in browsers, and never to more than that.

/** Gives exactly `size` bytes; `corrupt` makes the error where the stream is broken, or shorter. */
export async function inflate(
  parts: readonly Uint8Array[],
  size: number,
  corrupt: (reason: string) => Error,
): Promise<Uint8Array> {
  const out = new Uint8Array(size);
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  const writing = (async () => {
    for (const part of parts) await writer.write(part);
    await writer.close();
  })();
  writing.catch(() => {}); // the reader says what is wrong
  const reader = stream.readable.getReader();
  let at = 0;
  try {
    while (at < size) {
      const { value, done } = await reader.read();
      if (done) break;
      const part = (value as Uint8Array).subarray(0, size - at);
      out.set(part, at);
      at += part.length;
    }
  } catch (error) {
    throw corrupt(error instanceof Error ? error.message : String(error));
  } finally {
    await reader.cancel().catch(() => {});
  }
  if (at < size) throw corrupt(`it ends after ${at} of ${size} bytes of pixels`);
  return out;
}
