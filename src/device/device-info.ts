// What a device says of itself.

import type { KvDtype } from "./memory.js";

/** Facts that the engine decides by; it never asks which device it has. */
export interface DeviceInfo {
  /** For people. */
  readonly name: string;
  /** Devices of the same numerics give the same bits: pages of one can be used on the other. */
  readonly numerics: string;
  /** One line for people: instruction set, threads, memory. */
  readonly description: string;
  /** Work units that attention is split for: threads or CTAs. */
  readonly numWorkers: number;
  /** Tokens of one prompt that a step should have, unless somebody asks for others: with fewer it waits for memory more than it computes. */
  readonly promptChunk: number;
  /** Absolute KV chunk of the fixed split, in tokens. */
  readonly kvChunk: number;
  /** Flights that can be in flight at once: 2 when the device computes while the host goes on, 1 when every call computes. */
  readonly asyncDepth: 1 | 2;
  /** Its tensors and pools are not the host's memory: they can be full while the host has room. */
  readonly hasOwnMemory: boolean;
  /** readPages() and readStates() are there; false where the device cannot block. */
  readonly canReadPages: boolean;
  /** KV elements unless somebody asks for others. */
  readonly kvDtype: KvDtype;
  /** Most bytes of a page pool; Infinity: only memory bounds it. */
  readonly maxPoolBytes: number;
  /** How far its logits may be from exact arithmetic on f32 weights. */
  readonly logitTolerance: number;
  /** Its products round weights and what they multiply to 16 bits: how far logits move depends on the model. Absent: they do not. */
  readonly roundsOperands?: boolean;
  /** What it computes may depend on what is computed beside it: its compiler reorders sums. Absent: it does not. */
  readonly hasLooseBits?: boolean;
  /** A row of several tokens costs little more than one of one, and flights do not overlap: guesses are tried unless somebody asks otherwise. */
  readonly draftsPay: boolean;
  /** Its first steps of a kind take many times as long as those after them: engines take them at load, unless somebody asks otherwise. */
  readonly hasSlowFirsts?: boolean;
  /** Slow on purpose: plain code that others are compared with. */
  readonly isOracle: boolean;
  /** Host memory for pages that it has no room for, unless somebody asks for more or less; 0: its pools are host memory. */
  readonly hostTierBytes: number;
}

/** What a device that is a machine of its own has done and holds. */
export interface DeviceUsage {
  readonly memoryBytes: number;
  /** Of it, taken by this engine. */
  readonly memoryUsedBytes: number;
  /** Time that flights took on the device's own clock, since the start. */
  readonly busyMs: number;
  readonly launches: number;
  /** Launches of a whole step at once, as a graph made before. */
  readonly graphReplays: number;
}
