// The invariance suite on the native device: every encoding of weights and KV, 1, 2 and 3 threads against one another.

import { test } from "node:test";
import { openCpu } from "./support/cpu.js";
import { runInvariance } from "./support/invariance.js";
import { LogitLedger } from "./support/logit-ledger.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const WEIGHTS = [
  { dtype: "F32", quantize: "none" },
  { dtype: "F16", quantize: "none" },
  { dtype: "BF16", quantize: "none" },
  { dtype: "F32", quantize: "q8" },
  { dtype: "F32", quantize: "q4" },
] as const;
const KV = ["f32", "f16", "bf16", "i8", "fp8"] as const;

const { device, reason } = await openCpu(1);
device?.close();
if (device === null) test("invariance on the cpu device", { skip: reason });
else {
  for (const [w, { dtype, quantize }] of WEIGHTS.entries()) {
    const model = writeTinyCheckpoint({ hidden: 96, heads: 6, kvHeads: 2, ffn: 160, dtype });
    for (const [k, kvDtype] of KV.entries()) {
      if (kvDtype === "fp8" && w < 4) continue; // reads as i8 does, with another conversion
      const ledger = new LogitLedger();
      // Every pair of encodings with one number of threads; every encoding with all of them.
      const threads = w === k || (w === 4 && k === 0) ? [1, 2, 3] : [1 + ((w + k) % 3)];
      for (const n of threads) {
        const name = `cpu, ${quantize === "none" ? dtype : quantize} weights, ${kvDtype} KV, ${n} threads`;
        runInvariance({ name, model, ledger, config: { device: "cpu", threads: n, quantize, kvDtype } });
      }
    }
  }
}
