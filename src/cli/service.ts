// What the commands share that run until they are told to end: where their options come from, which models they name, their signals.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fromConfigFile } from "../config/config-file.js";
import { BUNDLED_MODEL, ENGINE_OPTIONS } from "../config/engine-config.js";
import { fromEnvironment, type OptionTable, type OptionValue, refuseUnknownVariables } from "../config/options.js";
import { modelNameOf } from "../formats/hub/hub-cache.js";

export const CONFIG_OPTION = {
  config: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "JSON file of options; flags and environment win",
  },
} as const satisfies OptionTable;

/** The first model is loaded at once, the others when a request names them. */
export const MODEL_OPTION = {
  model: {
    ...ENGINE_OPTIONS.model,
    type: "list",
    default: [BUNDLED_MODEL],
    help: `${ENGINE_OPTIONS.model.help}; may be given several times`,
  },
} as const satisfies OptionTable;

/** Values of the config file, the environment and the flags, the last one winning. `inFile`: what the file may say. */
export function layered(
  table: OptionTable,
  inFile: OptionTable,
  flags: Readonly<Record<string, OptionValue>>,
): Record<string, unknown> {
  refuseUnknownVariables(table, process.env);
  const layers = [fromEnvironment(table, process.env), flags];
  const path = layers.map((layer) => layer.config).findLast((value) => typeof value === "string");
  const file = typeof path === "string" ? fromConfigFile(inFile, path) : {};
  return Object.assign({}, file, ...layers) as Record<string, unknown>;
}

export function pick(values: Readonly<Record<string, unknown>>, table: OptionTable): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => key in table));
}

/** The name by which clients ask for a model that is given so, wherever it stands among others: a hub id as it is, a file by its own name. */
export function servedName(model: string): string {
  return existsSync(model) ? modelNameOf(resolve(model)).replace(/(-\d{5}-of-\d{5})?\.gguf$/, "") : model;
}

/**
 * Catches SIGTERM and SIGINT from now on. The function it returns resolves to the number of the next one, also of one that came meanwhile:
 * between two calls none ends the process by itself.
 */
export function catchSignals(): () => Promise<number> {
  const numbers: number[] = [];
  let wake = (): void => {};
  const onSignal = (_: NodeJS.Signals, number: number): void => {
    numbers.push(number);
    wake();
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  return async () => {
    while (numbers.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return numbers.shift()!;
  };
}
