// `node dist/test/goldens/held-out.js FOLDER`: every checkpoint of a folder that held-out.py made, on both devices, against its
// golden numbers; prompts in one batch and in chunks of 16, 64 and 128 must give the same bits. One line each; exit code 1 on a miss.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Device } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { type VerifyResult, verifyModel } from "../../src/engine/core/verify/verify.js";
import { openCpu } from "../support/cpu.js";

const TOLERANCE = 2e-4;
const CHUNKS = [16, 64, 128];

const root = process.argv[2] ?? "/tmp/held-out";
const cpu = await openCpu(2);
const devices: Device[] = [new ReferenceDevice(), ...(cpu.device === null ? [] : [cpu.device])];
let numMissed = 0;
for (const name of readdirSync(root).sort()) {
  const path = join(root, name);
  if (!existsSync(join(path, "golden.json"))) continue;
  const found = await Promise.all(devices.map(async (device) => `${device.info.name} ${await check(path, device)}`));
  process.stdout.write(`${name}: ${found.join(", ")}\n`);
}
cpu.device?.close();
process.stdout.write(`${numMissed} missed\n`);
process.exitCode = numMissed === 0 ? 0 : 1;

async function check(path: string, device: Device): Promise<string> {
  try {
    const results: VerifyResult[] = [];
    for (const chunk of CHUNKS) results.push(await verifyModel(path, device, { chunk, tolerance: TOLERANCE }));
    const cases = results.flatMap((result) => result.cases);
    const difference = Math.max(...cases.map((c) => c.logitDifference ?? 0));
    const cut = Math.max(...cases.map((c) => c.chunkDifference));
    const isOk = cut === 0 && results.every((result) => result.isOk);
    if (!isOk) numMissed++;
    const greedy = cases.flatMap((c) => c.misses).length;
    const sum = Math.max(...cases.map((c) => c.logprobDifference ?? 0));
    return isOk
      ? difference.toExponential(1)
      : `MISSED by ${difference.toExponential(1)}, sum ${sum.toExponential(1)}, chunks ${cut}, greedy ${greedy}`;
  } catch (error) {
    numMissed++;
    return `REFUSED ${(error as Error).message}`;
  }
}
