// WebAssembly in Node: modules from the package's folder, workers as threads.

import { readFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import type { KernelWorker, WasmHost } from "./wasm-library.js";

export const nodeWasmHost: WasmHost = {
  async compile() {
    try {
      return await compile("relaxed");
    } catch {
      return compile("simd128"); // before Node 21
    }
  },

  startWorker(start): KernelWorker {
    const worker = new Worker(new URL("./node-worker.js", import.meta.url), { workerData: start, execArgv: [] });
    worker.unref();
    const ready = new Promise<void>((resolve, reject) => {
      worker.once("message", resolve);
      worker.on("error", reject); // at work: the call that it works for fails, see #guarded of wasm-library.ts
    });
    return { ready, terminate: () => void worker.terminate() };
  },
};

async function compile(name: string): Promise<WebAssembly.Module> {
  const file = new URL(`../../../../native/wasm/${name}.wasm`, import.meta.url);
  return WebAssembly.compile(await readFile(file));
}
