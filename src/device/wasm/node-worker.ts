// A thread of the wasm device in Node.

import { parentPort, workerData } from "node:worker_threads";
import { serve, type WorkerStart } from "./instance.js";

await serve(workerData as WorkerStart, () => parentPort!.postMessage("ready"));
