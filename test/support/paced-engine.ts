// An engine whose steps take their time without computing: for tests that watch it at work.

import { Worker } from "node:worker_threads";
import { type EngineConfig, engineConfig } from "../../src/config/engine-config.js";
import { hostOf } from "../../src/engine/client/host.js";
import { HostedEngine } from "../../src/engine/client/hosted-engine.js";

export async function startPaced(options: Partial<EngineConfig>): Promise<HostedEngine> {
  const engine = new HostedEngine(engineConfig(options), null, (workerData, listener) =>
    hostOf(new Worker(new URL("./paced-worker.js", import.meta.url), { workerData }), listener),
  );
  await engine.ready;
  return engine;
}
