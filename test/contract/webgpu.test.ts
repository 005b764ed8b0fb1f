// The WebGPU device under the contract, where there is an adapter, be it in software. Ops that take minutes in software are run by
// `npm run test:webgpu` alone; test/webgpu.test.ts runs some of each in every run.

import { test } from "node:test";
import { openWebGpu } from "../support/webgpu.js";
import { runDeviceContract } from "./device.js";

const SLOW = [
  "matmul",
  "gatedMatmul",
  "headMatmul",
  "adaptedMatmul",
  "mixtureOfExperts",
  "attention",
  "linearAttention",
  "copyPage",
  "sample",
] as const;
const isWhole = process.env.PAGODA_WEBGPU_TESTS === "1";

const { device, reason } = await openWebGpu();
device?.close();
if (device === null) test("device contract: webgpu", { skip: reason });
else
  runDeviceContract({
    name: "webgpu",
    make: async () => (await openWebGpu()).device!,
    // Encodings that it does not keep are rounded to bf16; test/webgpu.test.ts holds the others to 1e-6.
    tolerance: { float: 4e-3 },
    skip: isWhole ? [] : SLOW.map((op) => ({ op, reason: "npm run test:webgpu runs it" })),
  });
