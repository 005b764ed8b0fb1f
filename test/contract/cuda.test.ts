// The CUDA device under the contract, where there is a GPU.

import { test } from "node:test";
import { CUDA_TOLERANCE, openCuda } from "../support/cuda.js";
import { runDeviceContract } from "./device.js";

const { device, reason } = await openCuda();
device?.close();
if (device === null) test("device contract: cuda", { skip: reason });
else
  runDeviceContract({
    name: "cuda",
    make: async () => (await openCuda()).device!,
    tolerance: CUDA_TOLERANCE,
  });
