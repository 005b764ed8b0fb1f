// The package `webgpu` (Dawn for Node), which those install who want it.

import { createRequire } from "node:module";

/** null: it is not installed. */
export function dawnVersion(): string | null {
  try {
    return (createRequire(import.meta.url)("webgpu/package.json") as { version: string }).version;
  } catch {
    return null;
  }
}
