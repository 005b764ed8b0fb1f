// Entry of the thread that renders and tokenises what would hold up the caller's.

import { parentPort, workerData } from "node:worker_threads";
import { PagodaError } from "../../core/errors.js";
import { setThreadClass } from "../../threads/thread-class.js";
import { openChatCheckpoint } from "./chat-checkpoint.js";
import type { FromTexts, TextTask, TextTasks } from "./text-thread.js";
import { verdictPrompt } from "./verdict-prompt.js";

const port = parentPort!;
await setThreadClass("background");
const checkpoint = openChatCheckpoint(workerData as string);
port.postMessage("ready" satisfies FromTexts);

port.on("message", (task: TextTask) => {
  try {
    const made = work(task);
    port.postMessage({ made } satisfies FromTexts, made instanceof Int32Array ? [made.buffer as ArrayBuffer] : []);
  } catch (error) {
    const reply: FromTexts =
      error instanceof PagodaError
        ? { code: error.code, details: error.details }
        : { failed: (error as Error).message };
    port.postMessage(reply);
  }
});

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
