// The kernels' sources: native/cuda/*.cu, each made one text by putting its own headers in place, so that NVRTC needs no folder.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isTraced } from "./trace.js";

/** The package's root: this file is dist/src/device/cuda/driver/sources.js in it. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..", "..", "..");
const FOLDER = join(ROOT, "native", "cuda");

/** Every option that changes the code; part of a cubin's name. */
export const OPTIONS: readonly string[] = ["--std=c++17", ...(isTraced() ? ["-DPAGODA_TRACE"] : [])];

/** What packages carry compiled kernels for. */
export const ARCHITECTURES: readonly string[] = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"];
/** And as assembly that every driver compiles for a GPU of this architecture or a later one. */
export const PTX = "compute_80";

/** "sm_86" of 8.6. Code for Hopper alone has a name of its own. */
export function archOf(major: number, minor: number): string {
  return `sm_${major}${minor}${major === 9 ? "a" : ""}`;
}

/**
 * What kernels of `wanted` may be compiled for to run on `gpu`, the best first: itself, those before it in its generation, or, for
 * GPUs of another generation than all we know, the PTX.
 */
export function imagesFor(gpu: string, wanted = gpu): string[] {
  const own = /^sm_(\d+)(\d)$/.exec(gpu);
  const isBefore = (other: string): boolean => {
    const [, major, minor] = /^sm_(\d+)(\d)$/.exec(other) ?? [];
    return own !== null && major === own[1] && Number(minor) < Number(own[2]);
  };
  const cubins = [gpu, ...ARCHITECTURES.filter(isBefore).reverse()];
  if (wanted !== gpu) return cubins.includes(wanted) ? [wanted] : [PTX];
  return cubins.some((arch) => ARCHITECTURES.includes(arch)) ? cubins : [PTX];
}

/** Names of the sources, without ".cu". */
export function sourceNames(): string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".cu"))
    .map((name) => name.slice(0, -3))
    .sort();
}

/** Sources that use what Hopper alone has: wgmma, and bulk copies as it has them. */
const HOPPER = /^(matmul-(tile|stream)|experts-(tile|stream)|attention-wgmma)/;

export function isFor(name: string, arch: string): boolean {
  return !HOPPER.test(name) || arch === "sm_90a";
}

export function sourceText(name: string): string {
  return inline(`${name}.cu`, new Set());
}

function inline(file: string, seen: Set<string>): string {
  if (seen.has(file)) return "";
  seen.add(file);
  return readFileSync(join(FOLDER, file), "utf8")
    .split("\n")
    .map((line) => {
      const header = /^#include "(.+\.cuh)"/.exec(line)?.[1];
      if (header !== undefined) return inline(header, seen);
      return line === "#pragma once" ? "" : line;
    })
    .join("\n");
}

/** The name of compiled kernels: source, options and architecture decide it. */
export function imageName(name: string, text: string, arch: string): string {
  const hash = createHash("sha256").update(text).update(OPTIONS.join(" ")).update(arch).digest("hex");
  return `${name}-${arch}-${hash.slice(0, 16)}.${arch === PTX ? "ptx" : "cubin"}`;
}
