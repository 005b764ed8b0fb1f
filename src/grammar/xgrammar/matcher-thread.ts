// Entry of a matcher's thread. It says what it is at, so that the engine's side can tell which message it hangs on.

import { parentPort, workerData } from "node:worker_threads";
import { setThreadClass } from "../../threads/thread-class.js";
import { systemThreadId } from "../../threads/thread-time.js";
import { type CodeMessage, IDLE, type MatcherInit, type ToMatcher } from "./matcher-messages.js";
import { MatcherService } from "./matcher-service.js";
import type { MatcherCode } from "./module.js";
import { unpackTexts } from "./token-texts.js";

const port = parentPort!;
const { vocabulary, control, turn } = workerData as MatcherInit;
await setThreadClass(turn);
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
