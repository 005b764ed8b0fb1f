// A thread of the wasm device in a browser.

import { serve, type WorkerStart } from "../device/wasm/instance.js";

const scope = globalThis as unknown as WorkerScope;
scope.onmessage = ({ data }) => void serve(data as WorkerStart, () => scope.postMessage("ready"));
