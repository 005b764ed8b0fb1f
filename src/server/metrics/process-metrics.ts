// Memory of the process, under the names that Prometheus clients give it everywhere.

import type { Registry } from "./registry.js";

export function measureProcess(registry: Registry): void {
  const { rss } = process.memoryUsage;
  registry.gauge("process_resident_memory_bytes", "Memory of the process that is in RAM", () => rss());
  const memory = () => process.memoryUsage();
  registry.gauge("nodejs_heap_size_used_bytes", "JavaScript heap of the HTTP thread", () => memory().heapUsed);
  registry.gauge("nodejs_external_memory_bytes", "Buffers of the HTTP thread", () => memory().external);
}
