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
