// DeepSeek's latent attention: files hold the matrix that makes keys and values of the latent in two parts, the keys' transposed,
// [heads, latent, keys] and [heads, values, latent]. Hugging Face has one matrix, [heads * (keys + values), latent].

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { f32ToF16 } from "../../core/dequantize/small-floats.js";
import type { HostTensor } from "../../core/tensor.js";
import { madeTensor } from "../tensor-views.js";

/** Blocks of the keys' part lie across what are rows here, so it is decoded; anything but f32 becomes f16. */
export function joinLatent(keys: HostTensor, values: HostTensor, name: string): HostTensor {
  const [heads, latent, keyDim] = keys.shape as [number, number, number];
  const valueDim = values.shape[1]!;
  const rows = heads * (keyDim + valueDim);
  const isF32 = keys.dtype === "f32" && values.dtype === "f32";
  return madeTensor(name, isF32 ? "f32" : "f16", [rows, latent], () => {
    const k = toFloat32(keys);
    const v = toFloat32(values);
    const out = new Float32Array(rows * latent);
    for (let head = 0; head < heads; head++) {
      const first = head * (keyDim + valueDim) * latent;
      for (let i = 0; i < keyDim; i++)
        for (let c = 0; c < latent; c++) out[first + i * latent + c] = k[(head * latent + c) * keyDim + i]!;
      const from = head * valueDim * latent;
      out.set(v.subarray(from, from + valueDim * latent), first + keyDim * latent);
    }
    return new Uint8Array(isF32 ? out.buffer : Uint16Array.from(out, f32ToF16).buffer);
  });
}
