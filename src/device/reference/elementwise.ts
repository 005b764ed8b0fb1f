// Ops that treat every number alike: a rule, and the walk over rows and columns.

import { activate } from "../../core/activation.js";
import type { MapOp, MapSpec, StagedBatch } from "../device.js";
import type { ReferenceStagedBatch } from "./staged-batch.js";
import type { ReferenceTensor } from "./tensor.js";

export class ReferenceMap implements MapOp {
  readonly spec: MapSpec;
  readonly #rule: (x: number, y: number) => number;

  constructor(spec: MapSpec) {
    this.spec = spec;
    this.#rule = ruleOf(spec);
  }

  run(out: ReferenceTensor, x: ReferenceTensor, y: ReferenceTensor | null, n: number, batch: StagedBatch | null): void {
    const { spec } = this;
    const rule = this.#rule;
    // y is x where the rule asks for none, and moves by rows alone where it has one column.
    const second = y ?? x;
    const step = spec.kind === "scale_rows" ? 0 : 1;
    const positions = spec.kind === "scale_by_position" ? (batch as ReferenceStagedBatch).batch.positions : null;
    for (let t = 0; t < n; t++) {
      const o = out.offset + t * out.stride;
      const i = x.offset + t * x.stride;
      const j = second.offset + t * second.stride;
      for (let c = 0; c < out.cols; c++) {
        const value = positions === null ? second.data[j + c * step]! : positions[t]!;
        out.data[o + c] = rule(x.data[i + c]!, value);
      }
    }
  }
}

function ruleOf(spec: MapSpec): (x: number, y: number) => number {
  switch (spec.kind) {
    case "add":
      return (x, y) => x + spec.scale * y;
    case "scale":
      return (x) => x * spec.factor;
    case "clamp":
      return (x) => (x < spec.low ? spec.low : x > spec.high ? spec.high : x);
    case "scale_rows":
      return (x, y) => x * y;
    case "scale_by_position": {
      const { beta, period, shift } = spec;
      return (x, position) => x * (1 + beta * Math.log1p(Math.floor((position + shift) / period)));
    }
    case "xielu": {
      const { alphaP, alphaN, beta, eps } = spec;
      return (x) => (x > 0 ? x * (alphaP * x + beta) : alphaN * (Math.expm1(Math.min(x, eps)) - x) + beta * x);
    }
    case "softcap":
      return (x) => spec.cap * Math.tanh(x / spec.cap);
    case "activation":
      return (x) => activate(spec.activation, x);
    case "gate":
      return (x, y) => activate(spec.activation, x) * y;
  }
}
