// Entry of the engine's worker thread: loads, then serves messages until closed. A fault ends the thread; the caller restarts it.

import { parentPort, workerData } from "node:worker_threads";
import type { EngineConfig } from "../../config/engine-config.js";
import { type FromEngine, type ToEngine, toWire } from "../messages.js";
import { EngineDriver } from "./driver.js";
import { loadEngine } from "./load/load.js";

const port = parentPort!;
/** Deno's port has no close(). */
const end = (): void => (typeof port.close === "function" ? port.close() : process.exit());
const send = (message: FromEngine): void => {
  port.postMessage(message);
  if (message.type === "dead") end();
};

try {
  const engine = await loadEngine(workerData as EngineConfig, (loadedBytes, totalBytes) =>
    send({ type: "progress", loadedBytes, totalBytes }),
  );
  const driver = new EngineDriver(engine, send);
  port.on("message", (message: ToEngine) => {
    driver.handle(message);
    if (message.type === "close") end();
  });
  // What nobody caught ends the thread, but not before its native memory and threads are given back.
  process.once("uncaughtException", (error) => {
    try {
      engine.core.close();
    } finally {
      send({ type: "dead", error: toWire(error, "engine_dead") });
    }
  });
  send({ type: "ready", facts: engine.facts });
} catch (error) {
  send({ type: "dead", error: toWire(error, "engine_dead") });
}
