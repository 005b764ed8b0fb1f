// The generated pages of docs/reference/ and the tables of docs/guide/library.md, written from what they describe.
// scripts/make-docs.mjs saves them; a test fails when they are not current.

import { readFileSync } from "node:fs";

import { CLUSTER_OPTIONS, REPLICA_OPTIONS, ROUTER_OPTIONS } from "../../src/config/cluster-config.js";
import { ENGINE_OPTIONS } from "../../src/config/engine-config.js";
import { defaultText, envOf, flagOf, type OptionRow, type OptionTable } from "../../src/config/options.js";
import { SERVER_OPTIONS } from "../../src/config/server-config.js";
import { VARIABLES } from "../../src/config/variables.js";
import { ERRORS, type ErrorKind } from "../../src/core/errors.js";
import { SAMPLING, type SamplingParam } from "../../src/core/sampling.js";
import { knownArchitectures } from "../../src/models/registry.js";
import { ENCODERS, encodersTable } from "./encoder-catalog.js";
import { familiesTable } from "./families-table.js";
import { referencePage } from "./reference-page.js";

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
  dead: { className: "EngineDeadError", meaning: "The engine cannot continue." },
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
    "Generated from the tables in `src/config/` by `node scripts/make-docs.mjs`. On the command line flags override environment variables,",
    "which override the config file (`--config FILE`), which overrides defaults. In a program only the options that you pass count: `createEngine` and",
    "`createServer` do not read the environment. In programs and config files an option has the name in the first column; the command line and the",
    "environment spell it as shown.",
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
      const rest = `${valuesOf(row)} | ${cell(defaultText(row))} | ${cell(row.help)} |`;
      lines.push(`| \`${key}\` | \`${flagOf(key)}\` | \`${envOf(key)}\` | ${rest}`);
    }
  }
  lines.push("", "## Environment alone", "", "Of the process, programs too.", "", "| variable | |", "|---|---|");
  for (const [name, help] of Object.entries(VARIABLES)) lines.push(`| \`${name}\` | ${cell(help)} |`);
  return `${lines.join("\n")}\n`;
}

/** The parameters of sampling, and how to add one. */
export function samplingPage(): string {
  const lines = [
    "# Sampling",
    "",
    "Generated from `src/core/sampling.ts` by `node scripts/make-docs.mjs`. One table describes every parameter; the library, the command line,",
    "the server with its OpenAPI description, and the dashboard read it, so names, ranges and defaults are the same everywhere. *the model's*:",
    "what its generation_config.json suggests, else the value in brackets. A GGUF file has no such file. If its `general.sampling.*` keys are absent too, temperature",
    "is 0.8, top k 40, top p 0.95, min p 0.05, as in llama.cpp. `engine.model.sampling` and `/api/show` (`parameters`) say what holds.",
    "",
    "| library | request body | flag | values | default | |",
    "|---|---|---|---|---|---|",
  ];
  for (const [key, param] of Object.entries(SAMPLING as Record<string, SamplingParam>)) {
    const name = param.api === null ? "by route" : `\`${param.api}\``;
    lines.push(`| \`${key}\` | ${name} | ${param.isFlag ? `\`${flagOf(key)}\`` : ""} | ${samplingCells(param)} |`);
  }
  return `${[...lines, "", ...RULE].join("\n")}\n`;
}

/** Values, default and text of a parameter. */
function samplingCells(param: SamplingParam): string {
  const { type, min, max, defaultText, help } = param;
  const isList = type === "strings" || type === "tokens";
  const values = isList ? `at most ${max} ${type}` : `${type}${range(min, max)}`;
  const own = JSON.stringify(param.default);
  const text = defaultText === undefined ? own : param.default === null ? defaultText : `${defaultText} (${own})`;
  return `${values} | ${cell(text)} | ${cell(help)}`;
}

const RULE = [
  "`logprobs` is `logprobs: true, top_logprobs: n` of chat completions and `logprobs: n` of completions. `top_k: -1` is 0.",
  "",
  "## The rule",
  "",
  "In this order: bias, penalties (repetition over prompt and answer; presence and frequency over the answer), stop tokens forbidden until",
  "`minTokens` are out, the grammar's mask, DRY, a caller's `editLogits`; then temperature, top-k, top-p, min-p, XTC and the draw",
  "(`src/core/sample-row.ts`, `src/core/choose-token.ts`). Log-probabilities are of the logits before any of it. The draw depends on the",
  "seed, the sample and the position alone. The same seed gives the same tokens with and without log-probabilities, alone or as one of",
  "`n`, whatever else is in the batch. Everything but `editLogits`, DRY and XTC runs on the device: a request's rule lies there in a row (`src/core/draws.ts`).",
  "A NaN logit counts as -infinity, and where the largest is infinite the lowest of its ids is chosen, whatever the filters. Where none is",
  "above -infinity, on every device, the answer ends with `no_token_left`.",
  "",
  "## Adding a parameter",
  "",
  "Four files:",
  "",
  "1. `src/core/sampling.ts`: a row of the table. Types, validation, flag, request body, OpenAPI, dashboard field and this page follow.",
  "2. `src/core/draws.ts`: a field of the row, which `rowWordsOf` writes once, and if it edits logits a flag of the draws that need it.",
  "3. `src/core/sample-row.ts`: what it does, as plainly as it can be said. The reference device runs this.",
  "4. `native/cpu/src/sample-row.h`: the same field of the struct, and the same rule. A test compares the two layouts.",
  "",
  "Then a case in `test/contract/sample.ts`, which every device must pass, and `node scripts/make-docs.mjs`.",
];

function valuesOf(row: OptionRow): string {
  return row.type === "choice" ? row.choices!.join(", ") : row.type + range(row.min, row.max);
}

function range(min: number | undefined, max: number | undefined): string {
  if (min === undefined && max === undefined) return "";
  if (max === undefined) return ` of at least ${min}`;
  return min === undefined ? ` of at most ${max}` : ` from ${min} to ${max}`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

/** docs/guide/library.md with new tables between its marks. */
function libraryPage(): string {
  const optionsTable = (table: OptionTable): string =>
    tableOf(table, (row) => `${valuesOf(row)} | ${cell(defaultText(row))} | ${cell(row.help)}`);
  const samplingTable = tableOf<SamplingParam>(SAMPLING, samplingCells);
  const withEngine = between(handWritten("guide/library.md"), "engine options", optionsTable(ENGINE_OPTIONS));
  return between(between(withEngine, "server options", optionsTable(SERVER_OPTIONS)), "sampling", samplingTable);
}

function tableOf<Row>(table: Readonly<Record<string, Row>>, cells: (row: Row) => string): string {
  const rows = Object.entries(table).map(([key, row]) => `| \`${key}\` | ${cells(row)} |`);
  return ["| name | values | default | |", "|---|---|---|---|", ...rows].join("\n");
}

function handWritten(name: string): string {
  return readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8");
}

/** docs/reference/models.md with new tables between its marks. */
function modelsPage(): string {
  const page = handWritten("reference/models.md");
  const listed = ENCODERS.flatMap(({ architectures }) => architectures);
  const families = familiesTable(knownArchitectures().filter((name) => !listed.includes(name)));
  return between(between(page, "families", families), "encoders", encodersTable());
}

function between(page: string, mark: string, text: string): string {
  const marked = new RegExp(`(<!-- ${mark} -->\\n)[\\s\\S]*?(\\n<!-- /${mark} -->)`);
  if (!marked.test(page)) throw new Error(`the page has no marks <!-- ${mark} -->`);
  return page.replace(marked, (_, before: string, after: string) => `${before}${text}${after}`);
}

/** Path under docs/ and content of every generated page. */
export function generatedPages(): readonly (readonly [string, string])[] {
  return [
    ["reference/errors.md", errorsPage()],
    ["guide/library.md", libraryPage()],
    ["reference/api.md", referencePage()],
    ["reference/models.md", modelsPage()],
    ["reference/sampling.md", samplingPage()],
    [
      "reference/configuration.md",
      configurationPage([
        { title: "Engine", table: ENGINE_OPTIONS },
        { title: "Server", table: SERVER_OPTIONS },
        { title: "Cluster", table: CLUSTER_OPTIONS },
        { title: "Replicas", table: REPLICA_OPTIONS },
        { title: "Routers", table: ROUTER_OPTIONS },
      ]),
    ],
  ];
}
