// `pagoda list`: the models in the cache, by the names that --model accepts.

import type { OptionTable } from "../config/options.js";
import { hubCachePath, listCache } from "../formats/hub/hub-cache.js";
import { hasHelped, parseFlags } from "./args.js";
import { bytes } from "./terminal.js";

export const LIST_OPTIONS = {
  json: { type: "boolean", default: false, help: "print as JSON" },
} as const satisfies OptionTable;

export async function listCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(LIST_OPTIONS, args);
  if (hasHelped(LIST_OPTIONS, { line: "list [options]" }, parsed)) return 0;
  const { values } = parsed;
  const cache = hubCachePath(process.env);
  const models = listCache(cache);
  if (values.json === true) process.stdout.write(`${JSON.stringify({ cache, models }, null, 2)}\n`);
  else if (models.length === 0) process.stdout.write(`No models in ${cache}. Fetch one: pagoda pull ORG/NAME\n`);
  else {
    const width = Math.max(...models.map(({ spec }) => spec.length));
    for (const { spec, kind, bytes: size, isComplete } of models) {
      const state = isComplete ? "" : "  incomplete: pull it again";
      process.stdout.write(`${spec.padEnd(width)}  ${kind.padEnd(11)}  ${bytes(size).padStart(10)}${state}\n`);
    }
  }
  return 0;
}
