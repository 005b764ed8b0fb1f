// Entry of a matcher's thread. It says what it is at, so that the engine's side can tell which message it hangs on.

import { getPriority, setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { type CodeMessage, IDLE, type MatcherInit, type ToMatcher } from "./matcher-messages.js";
import { MatcherService } from "./matcher-service.js";
import type { MatcherCode } from "./module.js";
import { systemThreadId } from "./thread-time.js";
import { unpackTexts } from "./token-texts.js";

const port = parentPort!;
const { vocabulary, control, niceness } = workerData as MatcherInit;
// Linux alone has a priority for each thread; elsewhere this would slow the whole process down. Counted from the process's own: nobody
// but the administrator may go above that.
if (niceness > 0 && process.platform === "linux") setPriority(0, Math.min(19, getPriority(0) + niceness));
Atomics.store(control, 2, systemThreadId());
let useCode: (code: MatcherCode) => void;
const code = new Promise<MatcherCode>((resolve) => {
  useCode = resolve;
});
const service = new MatcherService(unpackTexts(vocabulary), code);
let last: Promise<unknown> = service.ready();

port.on("message", (message: ToMatcher | CodeMessage) => {
  if (message.type === "code") {
    useCode(message.code);
    return;
  }
  last = last.then(async () => {
    const instance = await service.ready();
    Atomics.store(control, 0, message.id);
    Atomics.add(control, 1, 1);
    const reply = service.handle(instance, message);
    Atomics.store(control, 0, IDLE);
    if (reply !== null) port.postMessage(reply);
  });
});
