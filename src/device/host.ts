// What the host grants this process: cores, by quota and not by what the machine has, and memory.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, freemem, totalmem } from "node:os";
import { dirname, join } from "node:path";

/** Threads that can really run at once: the processors of the affinity mask, cut to the quota of the control group. */
export function availableCores(): number {
  return Math.max(1, Math.min(availableParallelism(), Math.floor(quotaCores())));
}

/**
 * Cores that the process's control group and its parents allow; Infinity without a quota. More threads than that are throttled
 * all together for part of every period. The folders are parameters for the tests.
 */
export function quotaCores(root = "/sys/fs/cgroup", membership = "/proc/self/cgroup"): number {
  const own = textOf(membership).match(/^0::(\/.*)$/m)?.[1] ?? "/";
  let least = Number.POSITIVE_INFINITY;
  for (let folder = own; ; folder = dirname(folder)) {
    const [quota, period] = textOf(join(root, folder, "cpu.max"))
      .split(/\s+/)
      .map(Number); // "max 100000" without a quota
    if (quota! > 0 && period! > 0) least = Math.min(least, quota! / period!);
    if (folder === "/") break;
  }
  const quota = Number(textOf(join(root, "cpu", "cpu.cfs_quota_us")) || -1); // control groups of version 1
  const period = Number(textOf(join(root, "cpu", "cpu.cfs_period_us")));
  return quota > 0 && period > 0 ? Math.min(least, quota / period) : least;
}

/** Bytes that a new allocation can have without pushing others out. */
export function availableMemory(): number {
  const free = process.platform === "darwin" ? macMemory(vmStat()) : freemem();
  const limit = process.constrainedMemory();
  if (limit === undefined || limit === 0 || limit > totalmem()) return free;
  return Math.max(0, Math.min(free, limit - process.memoryUsage.rss()));
}

/**
 * macOS keeps next to nothing free: what it calls inactive, speculative and purgeable is given up on demand. Text: of vm_stat;
 * without it a quarter of the machine.
 */
export function macMemory(text: string): number {
  const pageBytes = Number(text.match(/page size of (\d+) bytes/)?.[1]);
  const pages = (name: string) => Number(text.match(new RegExp(`^Pages ${name}:\\s+(\\d+)`, "m"))?.[1] ?? 0);
  const bytes = pageBytes * (pages("free") + pages("inactive") + pages("speculative") + pages("purgeable"));
  return bytes > 0 ? bytes : Math.max(freemem(), totalmem() / 4);
}

function vmStat(): string {
  return spawnSync("/usr/bin/vm_stat", { encoding: "utf8" }).stdout ?? "";
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // another system, or another version of control groups
  }
}
