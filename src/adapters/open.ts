// Opens an adapter by what lies at its path: PEFT's folder, or a GGUF file.

import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Adapter } from "./adapter.js";
import { openGgufAdapter } from "./gguf.js";
import { openPeftAdapter, PEFT_CONFIG } from "./peft.js";

/** `config` is the base model's, as config.json has it. */
export function openAdapter(path: string, config: Record<string, unknown>): Adapter {
  const file = ggufAt(path);
  return file === null ? openPeftAdapter(path) : openGgufAdapter(file, config);
}

/** The file itself, or the only one of a folder that has no PEFT adapter. */
function ggufAt(path: string): string | null {
  if (!existsSync(path)) return path.endsWith(".gguf") ? path : null;
  if (!statSync(path).isDirectory()) return path;
  if (existsSync(join(path, PEFT_CONFIG))) return null;
  const files = readdirSync(path).filter((name) => name.endsWith(".gguf"));
  return files.length === 1 ? join(path, files[0]!) : null;
}
