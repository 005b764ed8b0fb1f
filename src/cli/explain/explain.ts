// `pagoda explain`: shows how a set of requests is chunked, batched and laid out in pages, without a model. The command line of
// it; the work is in simulation.ts (the report), text.ts and svg.ts (renderers).

import { writeFile } from "node:fs/promises";
import type { OptionTable } from "../../config/options.js";
import { errorFor } from "../../core/errors.js";
import { hasHelped, parseFlags } from "../args.js";
import { EXPLAIN_DEFAULTS, type ExplainOptions } from "./report.js";
import { runExplain } from "./simulation.js";
import { renderExplainSvg } from "./svg.js";
import { renderExplain } from "./text.js";

export type { ExplainOptions, ExplainReport } from "./report.js";
export { renderExplain, renderExplainSvg, runExplain };

const { requests, pageSize, chunk, budget } = EXPLAIN_DEFAULTS;

export const EXPLAIN_OPTIONS = {
  requests: { type: "list", default: requests.map(String), help: "prompt lengths: N,N,..." },
  decodes: { type: "list", default: [], help: "positions of rows that are already decoding: N,N,..." },
  pageSize: { type: "integer", default: pageSize, min: 1, help: "tokens per page" },
  chunk: { type: "integer", default: chunk, min: 1, help: "ideal chunk, in tokens" },
  fixedChunk: { type: "integer", default: null, defaultText: "as --chunk", min: 1, help: "chunk of the chunked mode" },
  budget: { type: "integer", default: budget, min: 1, help: "tokens per batch, a multiple of the page size" },
  svg: { type: "string", default: null, defaultText: "none", help: "file for a drawing of timeline and pages" },
  json: { type: "boolean", default: false, help: "print the report as JSON" },
} as const satisfies OptionTable;

export async function explainCommand(
  args: readonly string[],
  stdout: { write(text: string): unknown } = process.stdout,
): Promise<number> {
  const parsed = parseFlags(EXPLAIN_OPTIONS, args);
  if (hasHelped(EXPLAIN_OPTIONS, { line: "explain [options]" }, parsed, stdout)) return 0;
  const { values } = parsed;
  const { svg, json, requests, decodes, ...counts } = values;
  const report = runExplain({
    ...(counts as Partial<ExplainOptions>),
    ...(requests === undefined ? {} : { requests: numbersOf("requests", requests as readonly string[]) }),
    ...(decodes === undefined ? {} : { decodes: numbersOf("decodes", decodes as readonly string[]) }),
  });
  if (svg !== undefined) await writeSvg(svg as string, renderExplainSvg(report));
  stdout.write(json === true ? `${JSON.stringify(report, null, 2)}\n` : renderExplain(report));
  return 0;
}

function numbersOf(flag: string, parts: readonly string[]): number[] {
  return parts.map((part) => {
    if (/^\s*\d+\s*$/.test(part)) return Number(part);
    const expected = "whole numbers, separated by commas";
    throw errorFor("invalid_option", { param: `--${flag}`, value: part, expected });
  });
}

async function writeSvg(file: string, svg: string): Promise<void> {
  try {
    await writeFile(file, svg);
  } catch (error) {
    const expected = `a file that can be written (${(error as NodeJS.ErrnoException).code})`;
    throw errorFor("invalid_option", { param: "--svg", value: file, expected });
  }
}
