// docs/reference/api.md: every public name of the library with its declaration, as the compiler emits it.

import { type PublicName, publicNames } from "./public-names.js";

/** What one imports from, and the module behind it. */
export const MODULES = [
  { name: "pagoda", entry: new URL("../../src/index.d.ts", import.meta.url) },
  { name: "pagoda/ai", entry: new URL("../../src/ai/index.d.ts", import.meta.url) },
] as const;

/** A declaration that is longer is a table, which has a page of its own. */
const MAX_LINES = 60;
/** What one calls first, what one only names last. */
const KINDS = ["function", "const", "class", "interface", "type"];

export function referencePage(): string {
  const lines = [
    "# Reference",
    "",
    "Generated from the compiler's declarations by `node scripts/make-docs.mjs`. [library](../guide/library.md) says how to use them.",
  ];
  for (const { name, entry } of MODULES) {
    const names = publicNames(entry).sort(
      (a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (a.name < b.name ? -1 : 1),
    );
    const links = names.map((one) => `[${one.name}](#${one.name.toLowerCase()})`);
    lines.push("", `## ${name}`, "", links.join(" · "));
    for (const one of names) lines.push("", ...section(one));
  }
  return `${lines.join("\n")}\n`;
}

function section({ name, doc, declaration }: PublicName): string[] {
  const code = declaration.replace(/^( +)/gm, (spaces) => " ".repeat(Math.ceil(spaces.length / 2))).split("\n");
  const shown = code.length > MAX_LINES ? [`${code[0]} ... }`] : code;
  return [`### ${name}`, "", doc, "", "```ts", ...shown, "```"];
}
