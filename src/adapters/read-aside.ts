// A tensor's numbers without holding up the thread: read by the system's threads, so that steps go on meanwhile.

import { closeSync, openSync, read } from "node:fs";
import { errorFor } from "../core/errors.js";
import type { HostTensor } from "../core/tensor.js";

/** The tensor with its bytes in memory. */
export async function readAside(tensor: HostTensor): Promise<HostTensor> {
  if (tensor.file === null) return tensor;
  const { path, offset } = tensor.file;
  const bytes = new Uint8Array(tensor.byteLength);
  const fd = openSync(path, "r");
  try {
    for (let done = 0; done < bytes.length; ) {
      const count = await readSome(fd, bytes, done, offset + done);
      if (count === 0) {
        const [expected, found] = [`${bytes.length} bytes`, `${done}; the file has shrunk`];
        throw errorFor("file_corrupt", { file: path, what: `tensor ${tensor.name}`, expected, found });
      }
      done += count;
    }
  } finally {
    closeSync(fd);
  }
  return { ...tensor, file: null, bytes: () => bytes };
}

function readSome(fd: number, bytes: Uint8Array, done: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, bytes, done, bytes.length - done, position, (error, count) => (error ? reject(error) : resolve(count)));
  });
}
