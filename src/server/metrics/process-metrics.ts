// Memory of the process, under the names that Prometheus clients give it everywhere.

import { Gauge, type Registry } from "prom-client";

export function measureProcess(registry: Registry): void {
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect(): void {
        this.set(read());
      },
    });
  };
  gauge("process_resident_memory_bytes", "Memory of the process that is in RAM", () => process.memoryUsage.rss());
  gauge("nodejs_heap_size_used_bytes", "JavaScript heap of the HTTP thread", () => process.memoryUsage().heapUsed);
  gauge("nodejs_external_memory_bytes", "Buffers of the HTTP thread", () => process.memoryUsage().external);
}
