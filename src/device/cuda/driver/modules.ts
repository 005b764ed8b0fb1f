// Compiled kernels: cubins made where nvcc was (build/cuda, scripts/build-cuda.mjs), of this GPU or of one before it in its generation; else
// PTX, which the driver compiles and keeps; else compiled by NVRTC at first use and kept in a cache folder.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { DeviceError } from "../../../core/errors.js";
import { allocNative, COMPILER, type Compiler, check, openLibrary } from "./abi.js";
import type { CudaContext } from "./context.js";
import { imageName, isFor, OPTIONS, PTX, ROOT, sourceNames, sourceText } from "./sources.js";
import { isTraced, Trace } from "./trace.js";

const BUILT = join(ROOT, "build", "cuda");
const MAX_SHARED_ATTRIBUTE = 8;
/** PTX is a C string; behind a cubin it does no harm. */
const END_OF_TEXT = Buffer.alloc(1);

export class CudaModules {
  readonly #context: CudaContext;
  readonly #modules = new Map<string, number>(); // source -> CUmodule
  readonly #functions = new Map<string, number>(); // kernel -> CUfunction
  #compiler: Compiler | null = null;
  #numCompiled = 0;
  readonly trace: Trace | null;

  constructor(context: CudaContext) {
    this.#context = context;
    this.trace = isTraced() ? new Trace(context) : null;
  }

  /** The kernel `name` of native/cuda/`source`.cu; `sharedBytes` is the most dynamic shared memory it will be launched with. */
  functionOf(source: string, name: string, sharedBytes = 0): number {
    const known = this.#functions.get(name);
    if (known !== undefined) return known;
    const { driver } = this.#context;
    const out = new BigUint64Array(1);
    check(driver, driver.moduleFunction(out, this.#moduleOf(source), `${name}\0`), "moduleFunction", name);
    const handle = Number(out[0]);
    if (sharedBytes > 48 * 1024) {
      const status = driver.functionAttribute(handle, MAX_SHARED_ATTRIBUTE, sharedBytes);
      check(driver, status, "functionAttribute", name, MAX_SHARED_ATTRIBUTE, sharedBytes);
    }
    this.#functions.set(name, handle);
    return handle;
  }

  /** Loads the kernels of these sources; returns how many there are for this GPU and how many had to be compiled. */
  loadAll(names: readonly string[] = sourceNames()): { sources: number; compiled: number } {
    const sources = names.filter((source) => isFor(source, this.#context.facts.arch));
    const before = this.#numCompiled;
    for (const source of sources) this.#moduleOf(source);
    return { sources: sources.length, compiled: this.#numCompiled - before };
  }

  #moduleOf(source: string): number {
    const known = this.#modules.get(source);
    if (known !== undefined) return known;
    const image = this.#image(source);
    const { driver } = this.#context;
    const out = new BigUint64Array(1);
    check(driver, driver.moduleLoad(out, image), "moduleLoad", source);
    this.#modules.set(source, Number(out[0]));
    this.trace?.attach(Number(out[0]));
    return Number(out[0]);
  }

  #image(source: string): Uint8Array {
    const { images } = this.#context.facts;
    const arch = images[0]!;
    const text = sourceText(source);
    for (const built of images) {
      const file = join(BUILT, `${imageName(source, text, built)}.gz`);
      if (existsSync(file)) return Buffer.concat([gunzipSync(readFileSync(file)), END_OF_TEXT]);
    }
    const folder = cacheFolder();
    const cached = join(folder, imageName(source, text, arch));
    if (existsSync(cached)) return readFileSync(cached);
    process.stderr.write(`pagoda: compiling ${source}.cu for ${arch}\n`);
    const image = this.#compile(source, text, arch);
    this.#numCompiled++;
    try {
      mkdirSync(folder, { recursive: true });
      writeFileSync(`${cached}.${process.pid}`, image);
      renameSync(`${cached}.${process.pid}`, cached);
    } catch (error) {
      process.stderr.write(`pagoda: ${folder} cannot keep compiled kernels: ${(error as Error).message}\n`);
    }
    return image;
  }

  #compile(source: string, text: string, arch: string): Uint8Array {
    this.#compiler ??= openCompiler();
    const compiler = this.#compiler;
    const out = new BigUint64Array(1);
    const fail = (reason: string): never => {
      throw new DeviceError("device_unavailable", { device: "cuda", reason: `${source}.cu: ${reason}` });
    };
    if (compiler.create(out, `${text}\0`, `${source}.cu\0`, 0, 0, 0) !== 0) fail("NVRTC takes no program.");
    const program = Number(out[0]);
    // Unlike nvcc, NVRTC takes a lambda that is generic for a function of the host, wherever it stands.
    const options = [...OPTIONS, `--gpu-architecture=${arch}`, "--device-as-default-execution-space"];
    const status = compiler.compile(program, options.length, stringArray(options));
    if (status !== 0) {
      compiler.logSize(program, out);
      const log = new Uint8Array(Number(out[0]));
      compiler.log(program, log);
      fail(`NVRTC cannot compile it: ${new TextDecoder().decode(log).trim()}`);
    }
    compiler[arch === PTX ? "ptxSize" : "cubinSize"](program, out);
    const image = new Uint8Array(Number(out[0]));
    compiler[arch === PTX ? "ptx" : "cubin"](program, image);
    compiler.destroy(BigUint64Array.of(BigInt(program)));
    return image;
  }

  close(): void {
    for (const module of this.#modules.values()) this.#context.driver.moduleUnload(module);
    this.#modules.clear();
    this.#functions.clear();
  }
}

/** A C array of C strings, in memory that stays. */
function stringArray(values: readonly string[]): BigUint64Array {
  const texts = values.map((value) => Buffer.from(`${value}\0`));
  const { address, buffer } = allocNative(texts.reduce((sum, text) => sum + text.length, 0));
  const bytes = new Uint8Array(buffer);
  let at = 0;
  return BigUint64Array.from(texts, (text) => {
    bytes.set(text, at);
    at += text.length;
    return BigInt(address + at - text.length);
  });
}

function openCompiler(): Compiler {
  const named = process.env.PAGODA_NVRTC;
  const usual = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"];
  try {
    return openLibrary(named === undefined ? usual : [named], COMPILER);
  } catch {
    const reason =
      "its kernels are not compiled for this GPU and NVRTC is not here; install the CUDA toolkit's libnvrtc.";
    throw new DeviceError("device_unavailable", { device: "cuda", reason });
  }
}

/** Where this user's GPU things are kept. */
export function cacheFolder(): string {
  const base = process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache");
  return join(base, "pagoda", "cuda");
}
