// Writes safetensors files for tests.

import { writeFileSync } from "node:fs";

export interface SafetensorsEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: ArrayBufferView;
}

export function writeSafetensors(path: string, tensors: ReadonlyMap<string, SafetensorsEntry>): void {
  const header: Record<string, unknown> = {};
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const [name, { dtype, shape, data }] of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, at + data.byteLength] };
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    at += data.byteLength;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  writeFileSync(path, Buffer.concat([length, json, ...parts]));
}
