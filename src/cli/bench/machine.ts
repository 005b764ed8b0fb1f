// The conditions of a measurement: without them its numbers mean nothing.

import { cpus, loadavg, totalmem } from "node:os";
import { availableCores } from "../../device/host.js";
import { bytes } from "../terminal.js";

export type MachineFacts = ReturnType<typeof machineFacts>;

export function machineFacts() {
  return {
    processor: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableCores(),
    memoryBytes: totalmem(),
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    /** Load of the last minute before the run: above zero, others were at work. */
    loadBefore: loadavg()[0]!,
  };
}

export function describeMachine({ processor, cores, memoryBytes, node, loadBefore }: MachineFacts): string {
  return `${processor}, ${cores} cores, ${bytes(memoryBytes)}, Node ${node}, load before ${loadBefore.toFixed(1)}`;
}
