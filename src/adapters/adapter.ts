// A LoRA adapter as its file has it: for some of the base's matrices W a pair a, b, so that W + scale * b a takes its place. Reading is by
// format (peft.ts); what is behind this interface is the same for all.

import type { HostTensor } from "../core/tensor.js";

export interface AdapterPair {
  /** The base's module as the adapter names it, without what stands before it in the file. */
  readonly module: string;
  readonly a: HostTensor; // [rank, inputs]
  readonly b: HostTensor; // [outputs, rank]
  readonly rank: number;
  readonly scale: number;
}

export interface Adapter {
  /** Shown in errors. */
  readonly file: string;
  readonly pairs: readonly AdapterPair[];
  /** Closes the file; tensors are read before it. */
  close(): void;
}

/** An adapter as callers name it. */
export interface AdapterRef {
  readonly name: string;
  /** Its folder or file. */
  readonly path: string;
  /** Factor on what it adds. */
  readonly scale: number;
  /** It stays loaded until it is unloaded by name. */
  readonly isPinned: boolean;
}

/** What is known of an adapter that was loaded. */
export interface AdapterFacts {
  /** Of its numbers: the same wherever the same adapter is loaded. Part of the identity of the pages it computed. */
  readonly identity: string;
  readonly byteLength: number;
  readonly maxRank: number;
}

/** How an adapter fares now. */
export interface AdapterStats {
  readonly name: string;
  readonly isLoaded: boolean;
  readonly isPinned: boolean;
  /** Samples that have it or wait for it. */
  readonly users: number;
  readonly byteLength: number;
}
