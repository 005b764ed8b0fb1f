// The thread's side of task-thread.ts.

import { parentPort, type TransferListItem } from "node:worker_threads";
import { PagodaError } from "../core/errors.js";
import type { FromTasks } from "./task-thread.js";

/** `work` does one task; `transferOf`: what of its result is moved instead of copied. */
export function serveTasks<Task, Made>(
  work: (task: Task) => Made,
  transferOf: (made: Made) => TransferListItem[] = () => [],
): void {
  const port = parentPort!;
  const say = (reply: FromTasks<Made>, transfer: TransferListItem[] = []): void => port.postMessage(reply, transfer);
  say("ready");
  port.on("message", (task: Task) => {
    try {
      const made = work(task);
      say({ made }, transferOf(made));
    } catch (error) {
      say(
        error instanceof PagodaError
          ? { code: error.code, details: error.details }
          : { failed: (error as Error).message },
      );
    }
  });
}
