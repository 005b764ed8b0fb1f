// `pagoda verify [MODEL]`: runs the cases of MODEL/golden.json and says how far the numbers are from it. With --base MODEL is an adapter's
// folder. Exit code 1 on a miss.

import { BUNDLED_MODEL } from "../config/engine-config.js";
import { fromEnvironment, type OptionTable } from "../config/options.js";
import { openDevice } from "../engine/core/load/devices.js";
import { type CaseResult, verifyModel } from "../engine/core/verify/verify.js";
import { resolveModel } from "../formats/hub/hub.js";
import { hasHelped, parseFlags } from "./args.js";
import { RUN_OPTIONS } from "./sampling-options.js";

export const VERIFY_OPTIONS = {
  model: RUN_OPTIONS.model,
  base: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "the model that MODEL, an adapter's folder, is for",
  },
  mmproj: {
    type: "string",
    default: null,
    defaultText: "the one beside a .gguf file",
    help: "the file with the model's eyes",
  },
  device: RUN_OPTIONS.device,
  threads: RUN_OPTIONS.threads,
  quantize: RUN_OPTIONS.quantize,
  kvDtype: {
    ...RUN_OPTIONS.kvDtype,
    choices: ["f32", "f16", "bf16", "i8", "fp8"],
    default: "f32",
    help: "element type of the KV cache",
  },
  tolerance: {
    type: "number",
    min: 0,
    default: null,
    defaultText: "the device's own: 1e-3 on reference, 2e-3 on cpu, 0.1 with AMX and on cuda",
    help: "largest logit difference allowed",
  },
  json: { type: "boolean", default: false, help: "print the result as JSON" },
} as const satisfies OptionTable;

export async function verifyCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(VERIFY_OPTIONS, args);
  const most = parsed.values.model === undefined ? 1 : 0;
  if (hasHelped(VERIFY_OPTIONS, { line: "verify [MODEL] [options]", words: { most } }, parsed)) return 0;
  const { values, positionals } = parsed;
  const named = positionals[0] ?? String(values.model ?? BUNDLED_MODEL);
  const isAdapter = typeof values.base === "string";
  const path = await resolveModel(isAdapter ? String(values.base) : named);
  const given = {
    device: "auto",
    threads: 0,
    ...fromEnvironment({ device: VERIFY_OPTIONS.device, threads: VERIFY_OPTIONS.threads }, process.env),
    ...values,
  };
  const device = await openDevice(given as Parameters<typeof openDevice>[0]);
  const wantsJson = values.json === true;
  try {
    const result = await verifyModel(path, device, {
      ...(isAdapter ? { adapter: named } : {}),
      ...(typeof values.mmproj === "string" ? { mmproj: values.mmproj } : {}),
      kvDtype: (values.kvDtype as "f32" | undefined) ?? "f32",
      quantize: (values.quantize as "none" | undefined) ?? "none",
      ...(values.tolerance === undefined ? {} : { tolerance: values.tolerance as number }),
      onCase: (result) => {
        if (!wantsJson) process.stdout.write(`${describe(result)}\n`);
      },
    });
    if (wantsJson) process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
    else
      process.stdout.write(
        `${result.isOk ? "ok" : "FAILED"}: ${isAdapter ? `${named} for ${path}` : path} on ${device.info.name}, logits within ${result.tolerance.toPrecision(2)}\n`,
      );
    return result.isOk ? 0 : 1;
  } finally {
    device.close();
  }
}

function describe(result: CaseResult): string {
  const difference = result.logitDifference === null ? "not given" : result.logitDifference.toExponential(2);
  const { misses, ties, greedyLen } = result;
  const miss = misses[0];
  const greedy =
    greedyLen === 0
      ? "not given"
      : miss !== undefined
        ? `DIFFER at token ${miss.index}: expected ${miss.expected}, found ${miss.found}`
        : `${greedyLen} equal${ties.length > 0 ? ` but for ${ties.length} at a tie` : ""}`;
  return `${result.isOk ? "ok  " : "FAIL"} case ${result.index} (${result.promptLen} tokens): largest logit difference ${difference}; greedy tokens ${greedy}`;
}
