// Where the engine runs: a worker thread, or the caller's own. Both look the same from here.

import { Worker } from "node:worker_threads";
import type { EngineConfig } from "../../config/engine-config.js";
import type { Device } from "../../device/device.js";
import type { LogitsHook } from "../../sampler/sampler.js";
import { EngineDriver } from "../core/driver.js";
import { type FromEngine, type ToEngine, toWire } from "../messages.js";
import { Inbox } from "./inbox.js";

export interface EngineHost {
  post(message: ToEngine, editLogits: LogitsHook | null): void;
  /** Ends the engine; resolves when its thread is gone. */
  close(): Promise<void>;
}

export type StartHost = (config: EngineConfig, listener: (message: FromEngine) => void) => EngineHost;

/** Starts loading at once. The listener hears progress, then `ready` or `dead`, then outputs. */
export function startHost(config: EngineConfig, listener: (message: FromEngine) => void): EngineHost {
  return config.worker ? startWorker(config, listener) : startInProcess(config, listener);
}

/** A host that may be started before anybody hears it. */
export interface PrestartedHost {
  /** The first call takes over what was started, with all it has said; later ones start another. */
  readonly start: StartHost;
  /** Nobody will take it. */
  abandon(): void;
}

/** Starts the engine's thread, where it has one, while its caller's own modules are still to be loaded. */
export function prestart(config: EngineConfig, begin: StartHost = startHost): PrestartedHost {
  if (!config.worker) return { start: begin, abandon: () => undefined };
  const said: FromEngine[] = [];
  let hear = (message: FromEngine): void => void said.push(message);
  let waiting: EngineHost | null = begin(config, (message) => hear(message));
  return {
    start: (given, listener) => {
      if (waiting === null) return begin(given, listener);
      const host = waiting;
      waiting = null;
      queueMicrotask(() => {
        hear = listener;
        for (const message of said.splice(0)) listener(message);
      });
      return host;
    },
    abandon: () => void waiting?.close(), // it ends by itself, once it has loaded or failed to
  };
}

function startWorker(config: EngineConfig, listener: (message: FromEngine) => void): EngineHost {
  // A program given by --eval may say what it is written in; a thread started from a file may not. Other flags are inherited.
  const isEval = process.execArgv.some((arg) => arg.startsWith("--input-type"));
  const options = { workerData: config, ...(isEval ? { execArgv: [] } : {}) };
  return hostOf(new Worker(new URL("../core/worker.js", import.meta.url), options), listener);
}

/** An engine whose thread has been started. */
export function hostOf(worker: Worker, listener: (message: FromEngine) => void): EngineHost {
  let isClosing = false;
  const gone = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  const inbox = new Inbox(listener);
  worker.on("message", (message) => inbox.push(message));
  worker.unref(); // what is under way keeps the process alive (engine.ts), not the thread; listening had held it
  // An error may overtake messages, which come by another way; when the thread has ended all of them are here.
  let failure: unknown;
  worker.on("error", (error) => {
    failure = error;
  });
  worker.once("exit", () => {
    inbox.flush(); // what it said before it died
    if (failure !== undefined && !isClosing) listener({ type: "dead", error: toWire(failure, "engine_dead") });
  });
  return {
    post: (message) => worker.postMessage(message),
    close: () => {
      isClosing = true;
      worker.ref();
      worker.postMessage({ type: "close" } satisfies ToEngine);
      return gone;
    },
  };
}

/** `open` opens its device, where the config cannot name it. */
export function startInProcess(
  config: EngineConfig,
  listener: (message: FromEngine) => void,
  open?: (config: EngineConfig) => Promise<Device>,
): EngineHost {
  let isClosed = false;
  let driver: EngineDriver | null = null;
  const load = async (): Promise<void> => {
    // Where the engine has a thread of its own, the caller's needs none of these 170 modules.
    const { loadEngine } = await import("../core/load/load.js");
    const onProgress = (loadedBytes: number, totalBytes: number): void =>
      listener({ type: "progress", loadedBytes, totalBytes });
    const engine = await loadEngine(config, onProgress, open);
    driver = new EngineDriver(engine, listener);
    if (isClosed) driver.handle({ type: "close" });
    else listener({ type: "ready", facts: engine.facts });
  };
  const loading = load().catch((error: unknown) => listener({ type: "dead", error: toWire(error, "engine_dead") }));
  return {
    post: (message, editLogits) => driver?.handle(message, editLogits),
    close: async () => {
      isClosed = true;
      await loading;
      driver?.handle({ type: "close" });
    },
  };
}
