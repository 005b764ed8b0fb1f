// What `pagoda doctor` finds of the native library: whether there is one, which kernels of it run here, and what is to be done if not.
// Modules that reach it are loaded here and not before: without koffi's binary for the system they cannot be.

import type { CpuDevice } from "../../device/cpu/cpu-device.js";

export interface NativeFindings {
  readonly device: CpuDevice | null;
  /** Those that run here, best last. */
  readonly instructionSets: readonly string[];
  /** Its path, and why this one. */
  readonly library: string | null;
  /** Why there is no device. */
  readonly reason: string;
  /** Whether an engine compiles it in the background. */
  readonly isToBeCompiled: boolean;
  readonly advice: readonly string[];
}

const NOTHING = { device: null, instructionSets: [], library: null, isToBeCompiled: false } as const;
const KOFFI = "Install koffi with its binary for this system, if it has one: npm leaves it out with --omit=optional.";

/** Compiles nothing. */
export async function examineNative(): Promise<NativeFindings> {
  let modules: Awaited<ReturnType<typeof load>>;
  try {
    modules = await load();
  } catch (error) {
    return { ...NOTHING, reason: (error as Error).message, advice: [KOFFI] };
  }
  const { CpuDevice, ISA_NAMES, library } = modules;
  const open = (isa?: string) => new CpuDevice(isa === undefined ? {} : { threads: 1, isa });
  const unusable = () => [library.unusablePackage()].filter((line) => line !== null);
  try {
    await library.findLibrary();
    const device = open();
    const instructionSets = ISA_NAMES.slice(1).filter((isa) => runs(() => open(isa)));
    const { path, why } = library.libraryChoice()!;
    return { ...NOTHING, device, instructionSets, library: `${path} (${why})`, reason: "", advice: unusable() };
  } catch (error) {
    const state = library.libraryChoice() === null ? await library.buildState() : "off";
    const isToBeCompiled = state === "started";
    const advice = isToBeCompiled ? "Compile the native library now" : "See why the native library was not compiled";
    const compile = isToBeCompiled || state === "failed" ? [`${advice}: ${library.BUILD_COMMAND}`] : [];
    return { ...NOTHING, reason: (error as Error).message, isToBeCompiled, advice: [...unusable(), ...compile] };
  }
}

async function load() {
  const { CpuDevice } = await import("../../device/cpu/cpu-device.js");
  const { ISA_NAMES } = await import("../../device/cpu/memory.js");
  const library = await import("../../device/cpu/library.js");
  return { CpuDevice, ISA_NAMES, library };
}

function runs(open: () => CpuDevice): boolean {
  try {
    open().close();
    return true;
  } catch {
    return false;
  }
}
