// Which thread runs first when threads want more processors than there are. When a thread wakes up, Linux lets whoever runs finish its slice,
// milliseconds long, unless the one that wakes asks for shorter slices: then it runs at once. Who answers clients wakes up often and
// runs briefly; without this it waits behind threads that compute, several times for each request. Shares stay as they are: whoever
// asks for short slices gets more of them, not more time. Elsewhere than on Linux threads are equals.

import { getPriority, setPriority } from "node:os";

interface Terms {
  /** 0: the system's own choice. */
  readonly sliceUs: number;
  /** By how much the thread gives way while others want the processor, counted from the thread that started it. */
  readonly niceness: number;
}

const TERMS = {
  /** A server's thread: ahead of all others when it wakes up. */
  interactive: { sliceUs: 100, niceness: 0 },
  /** The engine's threads: ahead of those below. Short slices would cost them a twentieth of their decodes. */
  compute: { sliceUs: 0, niceness: 0 },
  /** Work that somebody waits for, and that may be long. */
  background: { sliceUs: 0, niceness: 5 },
  idle: { sliceUs: 0, niceness: 15 },
} satisfies Readonly<Record<string, Terms>>;

export type ThreadClass = keyof typeof TERMS;

/** Of the calling thread; threads that it starts inherit it. */
export async function setThreadClass(name: ThreadClass): Promise<void> {
  if (process.platform !== "linux") return;
  const { sliceUs, niceness }: Terms = TERMS[name];
  const own = getPriority(0); // of this thread
  const nice = Math.min(19, own + niceness); // nobody but the administrator may go above its own
  if (nice > own) setPriority(0, nice);
  if (sliceUs === 0) return; // the FFI is not loaded in threads of the engine for this: a process that ends meanwhile aborts
  try {
    const { setSchedule } = await import("./sched-abi.js");
    setSchedule(nice, sliceUs);
  } catch {
    // no FFI here
  }
}
