// Entry of the thread that renders and tokenises what would hold up the caller's.

import { workerData } from "node:worker_threads";
import { serveTasks } from "../../threads/task-worker.js";
import { setThreadClass } from "../../threads/thread-class.js";
import { openChatCheckpoint } from "./chat-checkpoint.js";
import type { TextTask, TextTasks } from "./text-thread.js";
import { verdictPrompt } from "./verdict-prompt.js";

await setThreadClass("background");
const checkpoint = openChatCheckpoint(workerData as string);
serveTasks(work, (made) => (made instanceof Int32Array ? [made.buffer as ArrayBuffer] : []));

function work(task: TextTask): TextTasks[keyof TextTasks]["made"] {
  switch (task.kind) {
    case "encode":
      return Int32Array.from(checkpoint.requireTokenizer().encode(task.text, task.options));
    case "render":
      return checkpoint.chatTemplate!.renderPrompt(task.messages, task.options);
    case "verdict":
      return Int32Array.from(verdictPrompt(checkpoint, task.query, task.document, task.instruction, task.limit));
  }
}
