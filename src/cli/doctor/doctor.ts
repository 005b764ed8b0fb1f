// `pagoda doctor`: what this machine has, which device and library an engine takes here and why, and what would make it faster. Opens
// devices, compiles nothing.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import type { OptionTable } from "../../config/options.js";
import { packageVersion } from "../../config/version.js";
import type { KernelDevice } from "../../device/cpu/kernel-device.js";
import type { Device } from "../../device/device.js";
import { availableCores, availableMemory, quotaCores } from "../../device/host.js";
import { openDevice } from "../../engine/core/load/devices.js";
import { hasHelped, parseFlags } from "../args.js";
import { bytes } from "../terminal.js";
import { examineNative, type NativeFindings } from "./doctor-native.js";

export const DOCTOR_OPTIONS = {
  json: { type: "boolean", default: false, help: "print as JSON" },
} as const satisfies OptionTable;

/** Up to half of it is read: more than the largest caches hold. */
const BANDWIDTH_TAKES = 2 ** 31;

export interface Findings {
  readonly pagoda: string;
  readonly node: string;
  readonly system: string;
  readonly processor: string;
  /** Of the native library, those that run here, best last. */
  readonly instructionSets: readonly string[];
  readonly cores: { readonly visible: number; readonly quota: number | null; readonly used: number };
  readonly memory: { readonly total: number; readonly available: number };
  /** Bytes read per second on all used cores; null where nothing could measure it. */
  readonly memoryBandwidth: number | null;
  readonly gpu: string;
  /** The adapter that WebGPU has here with its limits, and why it is chosen or not. */
  readonly webgpu: string;
  readonly compiler: string | null;
  readonly device: { readonly name: string; readonly description: string; readonly why: string };
  readonly library: string | null;
  readonly advice: readonly string[];
}

export async function doctorCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(DOCTOR_OPTIONS, args);
  if (hasHelped(DOCTOR_OPTIONS, { line: "doctor [options]" }, parsed)) return 0;
  const { values } = parsed;
  const findings = await examine();
  process.stdout.write(values.json === true ? `${JSON.stringify(findings, null, 2)}\n` : screenOf(findings));
  return 0;
}

export async function examine(): Promise<Findings> {
  const compiler = findCompiler();
  const cuda = await tryOpen("cuda");
  const native = await examineNative();
  const webgpu = await examineWebGpu();
  const kernels = native.device ?? ((await tryOpen("wasm")).device as KernelDevice | null);
  const quota = quotaCores();
  const available = availableMemory();
  const findings = {
    pagoda: packageVersion(),
    node: process.version,
    system: `${process.platform} ${process.arch}`,
    processor: cpus()[0]?.model ?? "unknown",
    instructionSets: native.instructionSets,
    cores: { visible: availableParallelism(), quota: Number.isFinite(quota) ? quota : null, used: availableCores() },
    memory: { total: totalmem(), available },
    memoryBandwidth: available < BANDWIDTH_TAKES ? null : (kernels?.measurePeak("memory") ?? null),
    gpu: cuda.device?.info.description ?? gpuState(cuda.reason),
    webgpu: webgpu.text,
    compiler,
    device: chosenOf(cuda.device, webgpu.device, native, kernels),
    library: native.library,
  };
  for (const device of [cuda.device, webgpu.device, kernels]) device?.close();
  return { ...findings, advice: adviceFor(findings, native.advice) };
}

async function tryOpen(device: "cuda" | "wasm"): Promise<{ device: Device | null; reason: string }> {
  try {
    return { device: await openDevice({ device, threads: 0 }), reason: "" };
  } catch (error) {
    return { device: null, reason: (error as Error).message };
  }
}

/** `device`: only where an engine takes it by itself, on a GPU. */
async function examineWebGpu(): Promise<{ readonly device: Device | null; readonly text: string }> {
  const { openNodeGpu } = await import("../../device/webgpu/open-node.js");
  const opened = await openNodeGpu({ allowsSoftware: true }).catch((error: Error) => error.message);
  if (typeof opened === "string") return { device: null, text: opened };
  const limits = `${bytes(opened.info.maxPoolBytes)} a buffer`;
  const text = `${opened.info.description}, ${limits}`;
  if (!opened.isSoftware) return { device: opened, text };
  opened.close();
  return { device: null, text: `${text}: in software, which runs where it is asked for (--device webgpu)` };
}

function findCompiler(): string | null {
  for (const name of process.env.CXX ? [process.env.CXX] : ["g++", "clang++", "c++"]) {
    const { status, stdout } = spawnSync(name, ["--version"], { encoding: "utf8" });
    if (status === 0) return stdout.split("\n")[0]!;
  }
  return null;
}

function gpuState(reason: string): string {
  return existsSync("/dev/nvidiactl") || existsSync("/dev/dxg") ? `not usable: ${reason}` : "none";
}

/** What an engine takes here; `kernels` is what could be opened now. */
function chosenOf(
  cuda: Device | null,
  webgpu: Device | null,
  native: NativeFindings,
  kernels: Device | null,
): Findings["device"] {
  const chosen = cuda ?? webgpu ?? kernels;
  if (chosen === null) return { name: "reference", description: "plain TypeScript, slow", why: native.reason };
  const why =
    cuda !== null
      ? "an NVIDIA GPU serves"
      : webgpu !== null
        ? "WebGPU has a GPU"
        : native.device !== null
          ? "the native library is there"
          : native.isToBeCompiled
            ? "native kernels are not compiled yet: the first engine starts that in the background, for the next start"
            : native.reason;
  return { name: chosen.info.name, description: chosen.info.description, why };
}

function adviceFor(found: Omit<Findings, "advice">, ofNative: readonly string[]): string[] {
  const advice: string[] = [];
  const { cores, device, gpu } = found;
  if (gpu.startsWith("not usable"))
    advice.push("Make the GPU usable: driver of CUDA 12 or newer, sm_80 or newer (docs/internals/cuda.md).");
  if (device.name !== "cuda" && device.name !== "webgpu") advice.push(...ofNative);
  if (device.name === "wasm" && found.compiler === null) {
    advice.push("Install g++ or clang++, or the package for this system if there is one (docs/guide/platforms.md).");
  }
  if (device.name === "wasm") {
    advice.push("Native kernels are up to 2.5 times as fast as WebAssembly in decode, and up to 4 times with prompts.");
    if (Number(process.versions.node.split(".")[0]) < 22)
      advice.push("Node 22 or newer has more vector instructions in WebAssembly.");
  }
  if (cores.quota !== null && cores.quota < cores.visible)
    advice.push(`The control group allows ${cores.quota} of ${cores.visible} cores: raise its quota.`);
  if (device.name === "cpu" && process.env.PAGODA_CPU_ISA !== undefined)
    advice.push(`PAGODA_CPU_ISA holds the kernels to ${process.env.PAGODA_CPU_ISA}: unset it.`);
  if (device.name !== "cuda")
    advice.push("Decode reads every weight once a token: --quantize q8 or q4 makes them smaller.");
  return advice;
}

function screenOf(found: Findings): string {
  const { cores, memory, memoryBandwidth } = found;
  const quota = cores.quota === null ? "no quota" : `quota ${cores.quota}`;
  const rows = [
    ["pagoda", `${found.pagoda}, Node ${found.node}, ${found.system}`],
    ["processor", found.processor],
    ["kernels for", found.instructionSets.join(", ") || "none: there is no native library"],
    ["cores", `${cores.used} used; ${cores.visible} visible, ${quota}`],
    ["memory", `${bytes(memory.available)} available of ${bytes(memory.total)}`],
    [
      "bandwidth",
      memoryBandwidth === null
        ? "not measured (it takes 2 GiB of memory)"
        : `${(memoryBandwidth / 1e9).toFixed(1)} GB/s read on these cores`,
    ],
    ["GPU", found.gpu],
    ["WebGPU", found.webgpu],
    ["compiler", found.compiler ?? "none"],
    ["device", `${found.device.name}: ${found.device.description}`],
    ["why", found.device.why],
    ["library", found.library ?? "none"],
  ];
  const lines = rows.map(([name, text]) => `${name!.padEnd(12)} ${text}`);
  const advice = found.advice.map((line) => `  - ${line}`);
  return `${[...lines, ...(advice.length === 0 ? [] : ["", "What would make it faster:", ...advice])].join("\n")}\n`;
}
