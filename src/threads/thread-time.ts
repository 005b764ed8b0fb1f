// CPU time of a thread, seen from another one. A limit on it means the same on a busy machine as on an idle one.

import { readFileSync, readlinkSync } from "node:fs";

/** The calling thread as the system knows it; 0 where that cannot be told. */
export function systemThreadId(): number {
  try {
    return Number(/\d+$/.exec(readlinkSync("/proc/thread-self"))![0]); // "<process>/task/<thread>"
  } catch {
    return 0;
  }
}

/** Milliseconds that a thread of this process has run; null where that cannot be told. */
export function threadTimeMs(threadId: number): number | null {
  if (threadId === 0) return null;
  try {
    const nanoseconds = Number.parseInt(readFileSync(`/proc/self/task/${threadId}/schedstat`, "latin1"), 10);
    return nanoseconds > 0 ? nanoseconds / 1e6 : null;
  } catch {
    return null;
  }
}
