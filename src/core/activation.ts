// Activation functions, one number at a time, in f64.

/** Those that devices compute; "sigmoid" and "identity" gate other things than feed-forwards. */
export type Activation = "silu" | "gelu_tanh" | "gelu" | "relu" | "relu2" | "sigmoid" | "identity";

export function activate(kind: Activation, x: number): number {
  switch (kind) {
    case "silu":
      return x * sigmoid(x);
    case "gelu_tanh":
      return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
    case "gelu":
      return 0.5 * x * (1 + erf(x * Math.SQRT1_2));
    case "relu":
      return Math.max(x, 0);
    case "relu2":
      return Math.max(x, 0) ** 2;
    case "sigmoid":
      return sigmoid(x);
    case "identity":
      return x;
  }
}

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** gpt-oss: the gate is clamped above, the linear half on both sides, and one is added to it. */
export function gatedOss(gate: number, up: number): number {
  const limit = 7;
  const g = Math.min(gate, limit);
  const u = Math.min(Math.max(up, -limit), limit);
  return (u + 1) * g * sigmoid(1.702 * g);
}

/** erf(x) = 2/sqrt(pi) exp(-x^2) * sum of 2^i x^(2i+1) / (1*3*...*(2i+1)): all terms of one sign, so nothing cancels. */
export function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x); // 1 - erf(6) is below f64's resolution
  let term = x;
  let sum = x;
  for (let i = 1; Math.abs(term) > 1e-17 * Math.abs(sum); i++) {
    term *= (2 * x * x) / (2 * i + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
