// Finds the native library in build/native/, building it first when it is absent or older than its sources.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { errorFor } from "../../core/errors.js";
import { type NativeLibrary, openLibrary } from "./abi.js";

/** The package's root: this file is dist/src/device/cpu/library.js in it. */
const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..", "..");
const LIBRARY = join(ROOT, "build", process.arch === "x64" ? "native" : `native-${process.arch}`, "pagoda_cpu.so");
/** Folders the library is made of; native/cpu/test is not. */
const SOURCES = ["include", "src"].map((name) => join(ROOT, "native", "cpu", name));

let opened: NativeLibrary | null = null;

/** Throws DeviceError device_unavailable when there is no library and none can be built here. */
export function loadLibrary(): NativeLibrary {
  if (opened !== null) return opened;
  if (!isCurrent()) build();
  if (!existsSync(LIBRARY)) {
    throw errorFor("device_unavailable", {
      device: "cpu",
      reason: "the native library is not built; install g++ or clang++ and run: node scripts/build-native.mjs",
    });
  }
  opened = openLibrary(LIBRARY);
  return opened;
}

function isCurrent(): boolean {
  const built = statSync(LIBRARY, { throwIfNoEntry: false })?.mtimeMs;
  if (built === undefined) return false;
  for (const folder of SOURCES) {
    for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      if (/\.(cpp|h)$/.test(name) && statSync(join(folder, name)).mtimeMs > built) return false;
    }
  }
  return true;
}

function build(): void {
  const result = spawnSync(process.execPath, [join(ROOT, "scripts", "build-native.mjs")], { encoding: "utf8" });
  const said = `${result.stdout ?? ""}${result.stderr ?? ""}`.trim();
  if (said !== "") process.stderr.write(`${said}\n`);
}
