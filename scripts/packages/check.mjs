// What must hold of a package's library before it is run anywhere, and all that can be said of one that cannot be run here: it is for the
// system that package.json names, it has every function of the header and shows nothing else, its interface has the header's version,
// and it asks its system for nothing that the oldest supported one lacks.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { libraryName, root } from "../native/compile.mjs";
import { readBinary } from "./binary.mjs";

/** RHEL 8, Debian 10. */
export const OLDEST_GLIBC = [2, 28];
/** By system, or libc: the libraries that every one of them has. */
const LIBRARIES = {
  glibc: /^(lib(c|m|pthread|dl|rt)\.so\.\d+|ld-linux-[\w-]+\.so\.\d)$/,
  musl: /^libc(\.musl-\w+)?\.so(\.1)?$/,
  win32: /^(kernel32|advapi32|msvcrt|api-ms-win-crt-[\w-]+)\.dll$/i,
  darwin: /^\/usr\/lib\/lib(System\.B|c\+\+\.1)\.dylib$/,
};
const OLDEST_SYSTEM = { win32: [10, 0], darwin: [11, 0] };

/** Functions of the header, and the version of the interface. */
export function readHeader() {
  const text = readFileSync(join(root, "native", "cpu", "include", "pagoda_cpu.h"), "utf8");
  return {
    functions: [...text.matchAll(/^PG_API \w+ (pg_\w+)\(/gm)].map(([, name]) => name),
    version: Number(/^#define PG_ABI_VERSION (\d+)$/m.exec(text)[1]),
  };
}

/** What packages/NAME/package.json says it is for. */
export function systemOf(name) {
  const { os, cpu, libc } = JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8"));
  return { platform: os[0], arch: cpu[0], libc: libc?.[0] };
}

/** Throws when the library of packages/NAME lacks any of it; returns a line that says what was found. */
export function checkPackage(name) {
  const file = join(root, "packages", name, libraryName(systemOf(name).platform));
  const binary = readBinary(file);
  const faults = faultsOf(binary, systemOf(name));
  if (faults.length > 0) throw new Error(`${file}:\n  ${faults.join("\n  ")}`);
  const { imports, libraries, minimumSystem } = binary;
  const needs = newestGlibc(imports) ?? minimumSystem;
  return `all ${readHeader().functions.length} functions, interface ${readHeader().version}; needs ${libraries.join(", ")}${needs ? `, ${needs.join(".")} or newer` : ""}`;
}

/** What is wrong with a library for this system, in words. */
export function faultsOf(binary, { platform, arch, libc }) {
  if (binary.platform !== platform || binary.arch !== arch)
    return [`it is for ${binary.platform} ${binary.arch}, not ${platform} ${arch}`];
  const { functions, version } = readHeader();
  const { exports, imports, libraries, minimumSystem } = binary;
  const missing = functions.filter((name) => !exports.has(name));
  const shown = [...exports.keys()].filter((name) => !functions.includes(name));
  const foreign = libraries.filter((name) => !LIBRARIES[libc ?? platform].test(name));
  const newer = imports.filter((name) => isNewer(glibcOf(name), OLDEST_GLIBC));
  const faults = [];
  if (missing.length > 0) faults.push(`it lacks ${missing.join(", ")}`);
  // macOS binds a name to the library it was linked with, so what others show does no harm there; zig's linker hides nothing.
  if (platform === "darwin" ? !binary.isTwoLevel : shown.length > 0)
    faults.push(`it shows ${shown.length} names that are not its interface: ${some(shown)}`);
  if (foreign.length > 0) faults.push(`it needs ${foreign.join(", ")}, which not every system has`);
  if (newer.length > 0) faults.push(`it needs a glibc newer than ${OLDEST_GLIBC.join(".")} for ${some(newer)}`);
  if (isNewer(minimumSystem, OLDEST_SYSTEM[platform])) faults.push(`it needs ${platform} ${minimumSystem.join(".")}`);
  if (platform === "darwin" && arch === "arm64" && !binary.isSigned)
    faults.push("it is not signed, so nothing loads it");
  if (missing.length === 0 && !returns(binary, "pg_abi_version", version))
    faults.push(`its interface is not of version ${version}`);
  return faults;
}

const some = (names) => names.slice(0, 5).join(", ") + (names.length > 5 ? " ..." : "");

/** The glibc that an import asks for, [major, minor]; undefined where it asks for none. */
function glibcOf(name) {
  return /@GLIBC_(\d+)\.(\d+)/.exec(name)?.slice(1).map(Number);
}

function newestGlibc(imports) {
  return imports.map(glibcOf).reduce((newest, one) => (isNewer(one, newest) ? one : newest), undefined);
}

function isNewer(one, than) {
  if (one === undefined) return false;
  if (than === undefined) return true;
  return one[0] !== than[0] ? one[0] > than[0] : one[1] > than[1];
}

/** Whether a function without arguments begins by making this small number its result. */
function returns({ bytes, exports, arch }, name, number) {
  const code = bytes.subarray(exports.get(name), exports.get(name) + 24);
  const instruction = Buffer.alloc(arch === "arm64" ? 4 : 5);
  if (arch === "arm64")
    instruction.writeUInt32LE(0x52800000 | (number << 5)); // mov w0, number
  else instruction.writeUInt32LE(number, instruction.writeUInt8(0xb8)); // mov eax, number
  return code.includes(instruction);
}
