// A range of an open file, however long.

import { readSync } from "node:fs";

/** One read takes less than 2^31 bytes on some systems. */
const MAX_READ = 1 << 30;

/** Fills `bytes` with what the file has from `offset` on; returns how many it got, fewer where the file ends before. */
export function readFully(fd: number, bytes: Uint8Array, offset: number, maxRead = MAX_READ): number {
  let done = 0;
  while (done < bytes.length) {
    const read = readSync(fd, bytes, done, Math.min(bytes.length - done, maxRead), offset + done);
    if (read === 0) break;
    done += read;
  }
  return done;
}
