// The JSDoc of the option interfaces in src/config, written from their tables, so that an editor shows what docs/guide/library.md says.
// scripts/make-docs.mjs saves it; a test fails when it is not current.

import { readFileSync } from "node:fs";
import { ENGINE_OPTIONS } from "../../src/config/engine-config.js";
import { defaultText, type OptionRow, type OptionTable } from "../../src/config/options.js";
import { SERVER_OPTIONS } from "../../src/config/server-config.js";

const SOURCES: readonly { readonly path: string; readonly name: string; readonly table: OptionTable }[] = [
  { path: "src/config/engine-config.ts", name: "EngineConfig", table: ENGINE_OPTIONS },
  { path: "src/config/server-config.ts", name: "ServerConfig", table: SERVER_OPTIONS },
];
const LINE = 128;

/** Path and content of every source whose comments are written here. */
export function documentedSources(): readonly (readonly [string, string])[] {
  return SOURCES.map(({ path, name, table }) => {
    const source = readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
    const body = new RegExp(`(export interface ${name} \\{\\n)([\\s\\S]*?\\n)(\\})`);
    if (!body.test(source)) throw new Error(`${path} has no interface ${name}`);
    return [
      path,
      source.replace(body, (_, head: string, fields: string, end: string) => head + documented(fields, table) + end),
    ];
  });
}

function documented(fields: string, table: OptionTable): string {
  const bare = fields.replace(/ {2}\/\*\*[\s\S]*?\*\/\n/g, "");
  return bare.replace(/^ {2}readonly (\w+)/gm, (field, key: string) => {
    const row = table[key];
    return row === undefined ? field : `${comment(row)}\n${field}`;
  });
}

/** What the row says, and its default; on several lines where one is too short. */
function comment(row: OptionRow): string {
  const text = `${row.help[0]!.toUpperCase()}${row.help.slice(1)}. Default: ${defaultText(row)}.`;
  if (text.length + 9 <= LINE) return `  /** ${text} */`;
  const lines = ["   *"];
  for (const word of text.split(" ")) {
    if (lines.at(-1)!.length + 1 + word.length > LINE) lines.push("   *");
    lines[lines.length - 1] += ` ${word}`;
  }
  return ["  /**", ...lines, "   */"].join("\n");
}
