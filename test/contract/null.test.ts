// The null device keeps the shapes of the contract and none of its arithmetic.

import { NULL_OPS, NullDevice } from "../../src/device/null/null-device.js";
import { runDeviceContract } from "./device.js";
import type { ContractOp } from "./duel.js";

const reason = "computes nothing";
const ops: ContractOp[] = [...NULL_OPS.filter((op) => op !== "stage"), "allocTensor", "gatedMatmul", "adaptedMatmul"];

runDeviceContract({ name: "null", make: () => new NullDevice(), skip: ops.map((op) => ({ op, reason })) });
