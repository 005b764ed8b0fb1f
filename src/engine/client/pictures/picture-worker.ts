// Entry of the thread that decodes and prepares pictures.

import { parentPort, workerData } from "node:worker_threads";
import { setThreadClass } from "../../../threads/thread-class.js";
import { toWire } from "../../messages.js";
import { PictureReader, type ReaderOptions } from "./picture-reader.js";
import type { FromPictureThread, ToPictureThread } from "./picture-thread.js";

const port = parentPort!;
await setThreadClass("background");
const reader = new PictureReader(workerData as ReaderOptions);

port.on("message", ({ input, detail, client }: ToPictureThread) => {
  reader.read(input, detail, { client }).then(
    (seen) => port.postMessage({ seen } satisfies FromPictureThread),
    (error: unknown) => port.postMessage({ error: toWire(error, "image_corrupt") } satisfies FromPictureThread),
  );
});
