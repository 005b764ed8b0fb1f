// Entry of the thread that tokenises long texts.

import { parentPort, workerData } from "node:worker_threads";
import { setThreadClass } from "../../threads/thread-class.js";
import { openCheckpoint } from "../checkpoint.js";
import type { ToTokenizer } from "./tokenizer-thread.js";

const port = parentPort!;
await setThreadClass("background");
const tokenizer = openCheckpoint(workerData as string).requireTokenizer();

port.on("message", ({ text, options }: ToTokenizer) => {
  const ids = Int32Array.from(tokenizer.encode(text, options));
  port.postMessage(ids, [ids.buffer]);
});
