// What tells one model's pages from another's: the config, every tensor's name and shape, and a sample of its bytes. Reads a few
// kilobytes of each tensor, not the whole checkpoint.

import { createHash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import type { HostTensor, TensorSource } from "../../../core/tensor.js";

const SAMPLE_BYTES = 1024;

export function fingerprintOf(config: Record<string, unknown>, source: TensorSource): string {
  const hash = createHash("sha256").update(JSON.stringify(config));
  const files = new Map<string, number>(); // descriptors by path
  const sample = Buffer.alloc(SAMPLE_BYTES);
  try {
    for (const name of [...source.names()].sort()) {
      const tensor = source.get(name);
      hash.update(`${name} ${tensor.dtype} ${tensor.shape.join("x")}\n`);
      if (tensor.file !== null) hash.update(readSample(sample, tensor, tensor.file, files));
    }
  } finally {
    for (const file of files.values()) closeSync(file);
  }
  return hash.digest("hex");
}

/** From the middle: the ends of a weight are sometimes padding. */
function readSample(
  out: Buffer,
  { byteLength }: HostTensor,
  { path, offset }: { readonly path: string; readonly offset: number },
  files: Map<string, number>,
): Buffer {
  const file = files.get(path) ?? openSync(path, "r");
  files.set(path, file);
  const count = Math.min(SAMPLE_BYTES, byteLength);
  const from = offset + Math.floor((byteLength - count) / 2);
  return out.subarray(0, readSync(file, out, 0, count, from));
}
