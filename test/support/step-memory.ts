// Random calls to an engine's core, and how often its device took memory once it had served the first.

import { engineConfig } from "../../src/config/engine-config.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";
import type { Device } from "../../src/device/device.js";
import type { EngineCore } from "../../src/engine/core/engine-core.js";
import { loadEngine } from "../../src/engine/core/load/load.js";
import { outputsOf } from "./outputs.js";
import { makeRandom } from "./random.js";

export interface MeasuredDevice extends Device {
  readonly numAllocations: number;
}

const CALLS = 60;
const SETTINGS: readonly Partial<SamplingParams>[] = [
  {},
  { temperature: 1 },
  { temperature: 0.7, topP: 0.9 },
  { temperature: 1, topK: 20, topP: 0.8, minP: 0.01 },
  { repetitionPenalty: 1.05 },
  { temperature: 1, presencePenalty: 0.5, frequencyPenalty: 0.2 },
  { logprobs: 5 },
  { promptLogprobs: 2 },
  { temperature: 1, n: 3 },
  { minTokens: 4, ignoreEos: false },
  { temperature: 1, logitBias: Array.from({ length: 20 }, (_, id) => [id, 1] as const) },
];

/** Blocks that the device took in traffic behind the first call. */
export async function allocationsInTraffic(model: string, device: MeasuredDevice): Promise<number> {
  const config = engineConfig({
    model,
    pageSize: 8,
    maxPagesPerBatch: 16,
    idealChunk: 48,
    numPages: 400,
    hostCacheMb: 0,
  });
  const { core, facts } = await loadEngine(
    config,
    () => {},
    async () => device,
  );
  const random = makeRandom(11);
  add(core, "first", 3, facts.vocabSize, {});
  while (core.hasWork) step(core);
  const before = device.numAllocations;
  for (let call = 0; call < CALLS; call++) {
    const length = 1 + random(random(4) === 0 ? 200 : 30);
    const setting = SETTINGS[random(SETTINGS.length)]!;
    add(core, `${call}`, length, facts.vocabSize, { ...setting, maxTokens: 1 + random(30), seed: call });
    for (let i = random(4); i > 0; i--) step(core);
  }
  while (core.hasWork) step(core);
  const taken = device.numAllocations - before;
  core.close();
  return taken;
}

function step(core: EngineCore): void {
  core.step();
  for (const { error } of outputsOf(core)) if (error !== null) throw new Error(JSON.stringify(error));
}

function add(core: EngineCore, id: string, length: number, vocabSize: number, sampling: Partial<SamplingParams>): void {
  core.add({
    type: "add",
    callId: id,
    kind: "generate",
    prompt: Int32Array.from({ length }, (_, i) => (i * 7 + length) % vocabSize),
    sampling: { ...SAMPLING_DEFAULTS, maxTokens: 9, temperature: 0, ignoreEos: true, seed: 0, ...sampling },
    priority: 0,
    salt: "",
    arrivalMs: 0,
    constraint: null,
  });
}
