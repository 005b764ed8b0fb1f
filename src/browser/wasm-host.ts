// WebAssembly in a browser: modules over fetch, threads as workers.

import type { KernelWorker, WasmHost } from "../device/wasm/wasm-library.js";

export const browserWasmHost: WasmHost = {
  async compile() {
    try {
      return await compile(new URL("../../../native/wasm/relaxed.wasm", import.meta.url));
    } catch {
      return compile(new URL("../../../native/wasm/simd128.wasm", import.meta.url));
    }
  },

  startWorker(start): KernelWorker {
    const { Worker } = globalThis as unknown as BrowserScope;
    const worker = new Worker(new URL("./kernel-worker.js", import.meta.url), { type: "module" });
    const ready = new Promise<void>((resolve, reject) => {
      worker.onmessage = () => resolve();
      worker.onerror = ({ message }) => reject(new Error(message));
    });
    worker.postMessage(start);
    return { ready, terminate: () => worker.terminate() };
  },
};

async function compile(url: URL): Promise<WebAssembly.Module> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
}
