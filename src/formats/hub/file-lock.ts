// One process at a time, by a file that holds the owner's process id. Good enough to keep two pulls off one file; a lock whose
// owner is gone is taken over.

import { open, readFile, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

export async function withLock<T>(path: string, work: () => Promise<T>, pollMs = 200): Promise<T> {
  while (!(await tryLock(path))) {
    if (!(await isAbandoned(path)) || !(await clear(path))) await sleep(pollMs);
  }
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
}

async function tryLock(path: string): Promise<boolean> {
  try {
    const file = await open(path, "wx");
    await file.writeFile(String(process.pid));
    await file.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function isAbandoned(path: string): Promise<boolean> {
  const owner = Number(await readFile(path, "utf8").catch(() => ""));
  return owner > 0 && !isAlive(owner);
}

/** Removes an abandoned lock, one process at a time: whoever saw it abandoned earlier must not remove its heir's. False: another is at it. */
async function clear(path: string): Promise<boolean> {
  const guard = `${path}.clearing`;
  if (!(await tryLock(guard))) {
    if (await isAbandoned(guard)) await rm(guard, { force: true });
    return false;
  }
  try {
    if (await isAbandoned(path)) await rm(path, { force: true });
    return true;
  } finally {
    await rm(guard, { force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // somebody else's
  }
}
