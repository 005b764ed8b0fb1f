// `pagoda ps` and `pagoda stop MODEL`: the models that a running server holds, and letting go of one.

import type { OptionTable } from "../../config/options.js";
import { hasHelped, parseFlags } from "../args.js";
import { bytes } from "../terminal.js";
import { ASK_OPTIONS, askServer } from "./ask-server.js";

export const STOP_OPTIONS = ASK_OPTIONS;

export const PS_OPTIONS = {
  ...STOP_OPTIONS,
  json: { type: "boolean", default: false, help: "print as JSON" },
} as const satisfies OptionTable;

interface LoadedModel {
  readonly name: string;
  readonly size: number;
  readonly context_length: number;
  readonly active: number;
}

export async function psCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(PS_OPTIONS, args);
  if (hasHelped(PS_OPTIONS, { line: "ps [options]" }, parsed)) return 0;
  const { values } = parsed;
  const { models } = (await askServer(values, "GET", "/api/ps")) as { models: LoadedModel[] };
  if (values.json === true) process.stdout.write(`${JSON.stringify(models, null, 2)}\n`);
  else {
    const width = Math.max(5, ...models.map(({ name }) => name.length));
    process.stdout.write(`${"model".padEnd(width)}  context  requests      weights\n`);
    for (const { name, context_length, active, size } of models) {
      const weights = size === 0 ? "resident" : bytes(size);
      process.stdout.write(
        `${name.padEnd(width)}  ${String(context_length).padStart(7)}  ${String(active).padStart(8)}  ${weights.padStart(11)}\n`,
      );
    }
  }
  return 0;
}

export async function stopCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(STOP_OPTIONS, args);
  if (hasHelped(STOP_OPTIONS, { line: "stop MODEL [options]", words: { least: 1, most: 1 } }, parsed)) return 0;
  const { values, positionals } = parsed;
  const [model] = positionals;
  const { models } = (await askServer(values, "GET", "/api/ps")) as { models: LoadedModel[] };
  if (!models.some(({ name }) => name === model)) {
    process.stderr.write(`pagoda: ${model} is not loaded. Loaded: ${models.map(({ name }) => name).join(", ")}.\n`);
    return 1;
  }
  await askServer(values, "POST", "/api/generate", { model, keep_alive: 0 });
  process.stdout.write(`${model} is unloaded; its next request loads it again\n`);
  return 0;
}
