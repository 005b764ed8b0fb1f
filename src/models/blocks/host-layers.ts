// Layers that run on the host, once for a text and not for a token: what turns a pooled hidden state into scores, or into the
// embedding that a checkpoint was trained for. Sums are in f64, in the order of the inputs: every device gives the same bits.

import { type Activation, activate } from "../../core/activation.js";

/** One vector in, one out. */
export type HostLayer = (x: Float32Array) => Float32Array;

/** y = weight x + bias; weight [outputs, inputs]. */
export function hostLinear(weight: Float32Array, bias: Float32Array | null, outputs: number): HostLayer {
  const inputs = weight.length / outputs;
  return (x) => {
    const y = new Float32Array(outputs);
    for (let row = 0, at = 0; row < outputs; row++) {
      let sum = bias === null ? 0 : bias[row]!;
      for (let i = 0; i < inputs; i++, at++) sum += weight[at]! * x[i]!;
      y[row] = sum;
    }
    return y;
  };
}

export function hostActivation(name: Activation | "tanh"): HostLayer {
  return (x) => x.map(name === "tanh" ? Math.tanh : (value) => activate(name, value));
}

export function hostLayerNorm(weight: Float32Array, bias: Float32Array | null, eps: number): HostLayer {
  return (x) => {
    let mean = 0;
    for (const value of x) mean += value;
    mean /= x.length;
    let variance = 0;
    for (const value of x) variance += (value - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / x.length + eps);
    return x.map((value, i) => (value - mean) * scale * weight[i]! + (bias === null ? 0 : bias[i]!));
  };
}

export function inOrder(layers: readonly HostLayer[]): HostLayer {
  return (x) => layers.reduce((state, layer) => layer(state), x);
}
