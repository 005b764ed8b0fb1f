// Entry of the matcher's thread.

import { parentPort, workerData } from "node:worker_threads";
import type { TokenTexts } from "./instance.js";
import type { ToMatcher } from "./matcher-messages.js";
import { MatcherService } from "./matcher-service.js";

const port = parentPort!;
const service = new MatcherService(workerData as TokenTexts);
let last: Promise<void> = Promise.resolve();

port.on("message", (message: ToMatcher) => {
  last = last.then(async () => {
    const reply = await service.handle(message);
    if (reply !== null) port.postMessage(reply);
  });
});
