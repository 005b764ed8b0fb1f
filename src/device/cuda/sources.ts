// The kernels' sources: native/cuda/*.cu, each made one text by putting its own headers in place, so that NVRTC needs no folder.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isTraced } from "./trace.js";

/** The package's root: this file is dist/src/device/cuda/sources.js in it. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..", "..");
const FOLDER = join(ROOT, "native", "cuda");

/** Every option that changes the code; part of a cubin's name. */
export const OPTIONS: readonly string[] = ["--std=c++17", ...(isTraced() ? ["-DPAGODA_TRACE"] : [])];

/** Names of the sources, without ".cu". */
export function sourceNames(): string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".cu"))
    .map((name) => name.slice(0, -3))
    .sort();
}

/** Sources that use what Hopper alone has: wgmma, and bulk copies as it has them. */
const HOPPER = /^(matmul-(tile|stream)|attention-wgmma)/;

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

/** The name of a cubin: source, options and architecture decide it. */
export function cubinName(name: string, text: string, arch: string): string {
  const hash = createHash("sha256").update(text).update(OPTIONS.join(" ")).update(arch).digest("hex");
  return `${name}-${arch}-${hash.slice(0, 16)}.cubin`;
}
