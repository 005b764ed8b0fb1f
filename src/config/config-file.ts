// The config file: one JSON object whose keys are option names as in docs/reference/configuration.md.

import { readFileSync } from "node:fs";
import { ConfigError } from "../core/errors.js";
import { suggest } from "../core/suggest.js";
import type { OptionTable } from "./options.js";

/** The file's values; names that no option of `table` has are refused. */
export function fromConfigFile(table: OptionTable, path: string): Record<string, unknown> {
  const fail = (found: string): never => {
    throw new ConfigError("invalid_option", {
      param: "config",
      value: path,
      expected: `a JSON file of options (${found})`,
    });
  };
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8").replace(/^\ufeff/, "")); // editors on Windows write a byte order mark
  } catch (error) {
    return fail((error as Error).message);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return fail("it holds no object");
  for (const key of Object.keys(value)) {
    if (table[key] === undefined)
      throw new ConfigError("unknown_option", { param: `${key} in ${path}`, known: suggest(key, Object.keys(table)) });
  }
  return value as Record<string, unknown>;
}
