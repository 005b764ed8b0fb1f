// The invariance suite for models that keep other things than the keys and values of all tokens: windows, latents, states.

import { existsSync } from "node:fs";
import { test } from "node:test";
import { openCpu } from "./support/cpu.js";
import { runInvariance } from "./support/invariance.js";
import { withByteTokenizer } from "./support/tiny-checkpoint.js";

const MODELS: readonly { name: string; model: string; canPreempt?: boolean }[] = [
  { name: "windows beside full attention", model: "../shared/goldens/gemma3" },
  { name: "windows alone", model: "../shared/goldens/mistral-swa", canPreempt: false },
  { name: "latent", model: "../shared/goldens/deepseek-v3" },
  { name: "gated delta rule beside full attention", model: "../shared/goldens2/qwen3.5" },
  { name: "gated delta rule and experts", model: "../shared/goldens2/qwen3-next" },
  { name: "short convolutions beside full attention", model: "../shared/goldens2/lfm2" },
  { name: "states alone", model: "../shared/goldens2/mamba2", canPreempt: false },
];

const cpu = await openCpu();
cpu.device?.close();

for (const { name, model: golden, ...options } of MODELS) {
  if (!existsSync(golden)) {
    test(`${name}: ${golden}`, { skip: `${golden} is not here` });
    continue;
  }
  const model = withByteTokenizer(golden, 320);
  runInvariance({ name: `${name} on reference`, model, config: { device: "reference" }, ...options });
  if (cpu.device === null) test(`${name} on cpu`, { skip: cpu.reason });
  else runInvariance({ name: `${name} on cpu`, model, config: { device: "cpu", threads: 2 }, ...options });
}
