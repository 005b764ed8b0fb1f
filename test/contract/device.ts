// The contract of devices: every op against the reference device, on odd sizes, and row by row against itself, bit for bit.
// A device runs it in a test file of its own:
//
//   runDeviceContract({ name: "cpu", make: () => new CpuDevice({ threads: 2 }) });
//
// What a device does not do is skipped by name, with the reason in the test's output.

import { after, before, describe } from "node:test";
import type { KvDtype } from "../../src/device/device.js";
import { attentionContract } from "./attention.js";
import { type ContractOp, Duel, type OpenDevice } from "./duel.js";
import { elementwiseContract } from "./elementwise.js";
import { headContract } from "./heads.js";
import { lowRankContract } from "./low-rank.js";
import { mixtureContract } from "./mixture.js";
import { recurrentContract } from "./recurrent.js";
import { rotaryContract } from "./rotary.js";
import { sampleContract } from "./sample.js";
import { weightContract } from "./weight.js";

/** Largest error, as a share of the largest expected magnitude, or of one where that is less. */
export interface Tolerance {
  /** Elementwise ops, norms, rotary. */
  readonly elementwise: number;
  /** Matmul and embed with float weights. */
  readonly float: number;
  /** Matmul with integer weights, for which a device may round activations to 8 bits. */
  readonly integer: number;
  /** Attention over pages of each dtype; a key that falls between two numbers of the dtype may round either way. */
  readonly kv: Readonly<Record<KvDtype, number>>;
}

export const TOLERANCE: Tolerance = {
  elementwise: 1e-5,
  float: 1e-5,
  integer: 1e-2,
  kv: { f32: 1e-5, f16: 2e-3, bf16: 1.5e-2, i8: 2e-2, fp8: 5e-2 },
};

export interface DeviceContract {
  readonly name: string;
  readonly make: OpenDevice;
  readonly tolerance?: Partial<Tolerance>;
  readonly skip?: readonly { readonly op: ContractOp; readonly reason: string }[];
}

export function runDeviceContract({ name, make, tolerance = {}, skip = [] }: DeviceContract): void {
  describe(`device contract: ${name}`, () => {
    const duel = new Duel(make, new Map(skip.map(({ op, reason }) => [op, reason])));
    const limits = { ...TOLERANCE, ...tolerance };
    before(() => duel.open());
    after(() => duel.close());
    elementwiseContract(duel, limits);
    weightContract(duel, limits);
    rotaryContract(duel, limits);
    attentionContract(duel, limits);
    headContract(duel, limits);
    lowRankContract(duel, limits);
    mixtureContract(duel, limits);
    recurrentContract(duel, limits);
    sampleContract(duel);
  });
}
