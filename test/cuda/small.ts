// Small sizes of every kernel, run by hand under compute-sanitizer: node dist/test/cuda/small.js. No comparisons; the contract suite
// makes those. Ends with exit code 1 when a result is not a number.

import { Batch } from "../../src/core/batch.js";
import { CudaDevice } from "../../src/device/cuda/cuda-device.js";
import type { KvDtype, Tensor } from "../../src/device/device.js";
import { numbers, randomWeight, rowsOf, stageTokens } from "../contract/inputs.js";
import { drawsOf } from "../support/sampled.js";

const device = new CudaDevice({ memoryShare: 0.2 });
const checkNumbers = (what: string, x: Tensor, n: number): void => {
  const values = new Float32Array(n * x.cols);
  device.read(values, x, 0, n);
  if (values.some((value) => Number.isNaN(value))) {
    process.stderr.write(`${what}: not a number\n`);
    process.exitCode = 1;
  }
};

for (const dtype of ["bf16", "f16", "f32"] as const) {
  const weight = device.loadWeight([randomWeight(dtype, 200, 192, 1)]);
  for (const n of [1, 9, 33, 70, 300]) {
    const out = device.allocTensor(n, 200);
    device.matmul(out, rowsOf(device, 0, n, 192, 2), weight, n, { bias: device.loadTensor(numbers(200, 3), 1, 200) });
    checkNumbers(`matmul ${dtype} ${n}`, out, n);
  }
  const staged = stageTokens(device, [3, 1, 9], 200);
  const out = device.allocTensor(13, 192);
  device.embed(out, weight, staged, 1);
  device.rmsNorm(out, out, device.loadTensor(numbers(192, 4), 1, 192), 1e-5, 13);
  checkNumbers(`embed ${dtype}`, out, 13);
}

for (const [dtype, dim] of [
  ["bf16", 64],
  ["f16", 128],
  ["bf16", 256],
  ["f32", 48],
  ["i8", 64],
  ["fp8", 64],
  ["fp8", 128],
] as const satisfies readonly (readonly [KvDtype, number])[]) {
  const [numKvHeads, groupSize, pageSize] = [2, 4, 16];
  const rows = [
    [300, 1],
    [0, 150],
    [0, 1],
    [129, 40],
  ] as const;
  const batch = new Batch(pageSize, 256);
  let page = 1;
  for (const [cached, fresh] of rows) {
    const count = Math.ceil((cached + fresh) / pageSize);
    batch.addRow(
      new Int32Array(cached + fresh),
      cached,
      fresh,
      Int32Array.from({ length: count }, () => page++),
      Infinity,
    );
  }
  const n = batch.numTokens;
  const pool = device.allocKvPool({
    numPages: page,
    pageSize,
    numLayers: 1,
    numKvHeads,
    keyDim: dim,
    valueDim: dim,
    dtype,
  });
  const planner = device.createPlanner({ groupSize, numKvHeads, headDim: dim, window: 0, split: "fixed" });
  const staged = device.createStagedBatch(256);
  device.stage(staged, batch, [planner.plan(batch)]);
  const numHeads = numKvHeads * groupSize;
  const q = rowsOf(device, 0, n, numHeads * dim, 5);
  device.rotaryAppend(
    q,
    rowsOf(device, 0, n, numKvHeads * dim, 6),
    rowsOf(device, 0, n, numKvHeads * dim, 7),
    null,
    pool,
    0,
    staged,
  );
  const out = device.allocTensor(n, numHeads * dim);
  device.attention(out, q, pool, 0, staged, 0, { numHeads, scale: dim ** -0.5, softcap: 0, sinks: null });
  checkNumbers(`attention ${dtype} ${dim}`, out, n);
}

const tokens = device.createTokenBuffer(4);
const rows = drawsOf(
  [
    { temperature: 0, logprobs: 3 },
    { temperature: 1, answer: [1, 2, 1], presencePenalty: 1 },
    { topK: 5, logitBias: [[3, 2]], forbidden: [7] },
    { topP: 0.8, allowed: [1, 5, 900] },
  ],
  1000,
);
device.sample(tokens, 0, rowsOf(device, 0, 4, 1000, 8), 4, rows);
device.submit(tokens);
device.waitFor(tokens);
process.stdout.write(`${[...tokens.ids]}\n`);
device.close();
