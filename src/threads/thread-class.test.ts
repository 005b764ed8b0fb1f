import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { setThreadClass, type ThreadClass } from "./thread-class.js";

interface Schedule {
  readonly nice: number;
  readonly sliceUs: number;
}

interface Task {
  readonly turns: readonly ThreadClass[];
  /** The one asked about is started by the thread that has taken these turns. */
  readonly hasChild?: boolean;
}

/** How the system schedules a thread that has taken these turns. */
function scheduleAfter(task: Task): Promise<Schedule> {
  return new Promise((resolve, reject) => {
    new Worker(new URL(import.meta.url), { workerData: task }).once("message", resolve).once("error", reject);
  });
}

function ownSchedule(): Schedule {
  const [stat, sched] = ["stat", "sched"].map((name) => readFileSync(`/proc/thread-self/${name}`, "latin1"));
  const fields = stat!.slice(stat!.lastIndexOf(")") + 2).split(" "); // from the third on
  const slice = /se\.slice\s*:\s*(\d+)/.exec(sched!)?.[1];
  return { nice: Number(fields[16]), sliceUs: Number(slice) / 1000 };
}

const isLinux = existsSync("/proc/thread-self/sched");
/** Kernels before 6.12 know no slices of a thread's own. */
function hasSlices(): boolean {
  const [major = 0, minor = 0] = readFileSync("/proc/sys/kernel/osrelease", "latin1").split(".").map(Number);
  return major > 6 || (major === 6 && minor >= 12);
}

if (isMainThread) {
  test("each turn has its terms, and threads inherit them", { skip: !isLinux && "needs Linux" }, async () => {
    const usual = ownSchedule();
    const answers = await scheduleAfter({ turns: ["interactive"] });
    const inherited = await scheduleAfter({ turns: ["interactive"], hasChild: true });
    const computes = await scheduleAfter({ turns: ["compute"] });
    const soon = await scheduleAfter({ turns: ["compute", "background"] });
    assert.deepEqual(inherited, answers);
    assert.deepEqual([answers.nice, computes.nice, soon.nice], [usual.nice, usual.nice, Math.min(19, usual.nice + 5)]);
    const slices = [answers, computes, soon].map(({ sliceUs }) => sliceUs);
    if (hasSlices()) assert.deepEqual(slices, [100, usual.sliceUs, usual.sliceUs]);
  });
} else {
  const { turns, hasChild = false } = workerData as Task;
  for (const turn of turns) await setThreadClass(turn);
  parentPort!.postMessage(hasChild ? await scheduleAfter({ turns: [] }) : ownSchedule());
}
