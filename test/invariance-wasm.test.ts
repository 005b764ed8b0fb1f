// The invariance suite on the wasm device: one encoding of each kind of kernel, with 1 and 3 threads against one another.

import { runInvariance } from "./support/invariance.js";
import { LogitLedger } from "./support/logit-ledger.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

for (const [dtype, quantize, kvDtype] of [
  ["BF16", "none", "f16"],
  ["F32", "q4", "i8"],
] as const) {
  const model = writeTinyCheckpoint({ hidden: 96, heads: 6, kvHeads: 2, ffn: 160, dtype });
  const ledger = new LogitLedger();
  for (const threads of [1, 3]) {
    const name = `wasm, ${quantize === "none" ? dtype : quantize} weights, ${kvDtype} KV, ${threads} threads`;
    runInvariance({ name, model, ledger, config: { device: "wasm", threads, quantize, kvDtype } });
  }
}
