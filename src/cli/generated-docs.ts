// docs/errors.md, docs/configuration.md and the table of docs/models.md, written from the tables they describe. scripts/make-docs.mjs
// saves them; a test fails when they are not current.

import { readFileSync } from "node:fs";

import { ENGINE_OPTIONS } from "../config/engine-config.js";
import { defaultText, envOf, flagOf, type OptionTable } from "../config/options.js";
import { SERVER_OPTIONS } from "../config/server-config.js";
import { ERRORS, type ErrorKind } from "../core/errors.js";
import { knownArchitectures } from "../models/registry.js";
import { familiesTable } from "./model-catalog.js";

const KINDS: Readonly<Record<ErrorKind, { className: string; meaning: string }>> = {
  request: {
    className: "RequestError",
    meaning: "A field of the request is wrong; the request was not begun, or its caller ended it.",
  },
  config: { className: "ConfigError", meaning: "An option of the engine or the command line is wrong." },
  format: { className: "FormatError", meaning: "A model file is missing, corrupt or of an unsupported kind." },
  capacity: {
    className: "CapacityError",
    meaning: "The engine is full or closing; the same request may succeed later.",
  },
  device: { className: "DeviceError", meaning: "A device call or a step failed." },
  dead: { className: "EngineDeadError", meaning: "The engine cannot go on." },
  http: {
    className: "Only over HTTP",
    meaning: "What a server finds itself; its answers may say more than is written here.",
  },
};

export function errorsPage(): string {
  const lines = [
    "# Errors",
    "",
    "Generated from `src/core/errors.ts` by `node scripts/make-docs.mjs`. Every error has a `code`, a `kind`, a message with the",
    "value, the limit and the remedy, and, where one field is at fault, its name in `param`.",
  ];
  for (const [kind, { className, meaning }] of Object.entries(KINDS)) {
    lines.push("", `## ${className}`, "", meaning, "", "| code | message |", "|---|---|");
    for (const [code, row] of Object.entries(ERRORS)) {
      if (row.kind === kind) lines.push(`| \`${code}\` | ${cell(row.message)} |`);
    }
  }
  return `${lines.join("\n")}\n`;
}

export function configurationPage(tables: readonly { title: string; table: OptionTable }[]): string {
  const lines = [
    "# Configuration",
    "",
    "Generated from the option tables in `src/config/` by `node scripts/make-docs.mjs`. A value comes from, the last one winning:",
    "the default, the config file, the environment, the command line or the program. In programs and config files an option has the name in the first",
    "column; the command line and the environment spell it as shown.",
  ];
  for (const { title, table } of tables) {
    lines.push(
      "",
      `## ${title}`,
      "",
      "| option | flag | environment | values | default | |",
      "|---|---|---|---|---|---|",
    );
    for (const [key, row] of Object.entries(table)) {
      const values = row.type === "choice" ? row.choices!.join(", ") : row.type + range(row.min, row.max);
      lines.push(
        `| \`${key}\` | \`${flagOf(key)}\` | \`${envOf(key)}\` | ${values} | ${cell(defaultText(row))} | ${cell(row.help)} |`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

function range(min: number | undefined, max: number | undefined): string {
  if (min === undefined && max === undefined) return "";
  if (max === undefined) return ` of at least ${min}`;
  return min === undefined ? ` of at most ${max}` : ` from ${min} to ${max}`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

/** docs/models.md with a new table between its marks. */
function modelsPage(): string {
  const page = readFileSync(new URL("../../../docs/models.md", import.meta.url), "utf8");
  const table = familiesTable(knownArchitectures());
  return page.replace(/(<!-- families -->\n)[\s\S]*?(\n<!-- \/families -->)/, `$1${table.replaceAll("$", "$$$$")}$2`);
}

/** Path under docs/ and content of every generated page. */
export function generatedPages(): readonly (readonly [string, string])[] {
  return [
    ["errors.md", errorsPage()],
    ["models.md", modelsPage()],
    [
      "configuration.md",
      configurationPage([
        { title: "Engine", table: ENGINE_OPTIONS },
        { title: "Server", table: SERVER_OPTIONS },
      ]),
    ],
  ];
}
