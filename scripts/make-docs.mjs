// Writes the generated pages of docs/, and the comments of src/config, from the compiled tables: npm run build && node scripts/make-docs.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { documentedSources } from "../dist/scripts/docs/field-docs.js";
import { generatedPages } from "../dist/scripts/docs/generated-docs.js";

for (const [name, text] of generatedPages()) writeFileSync(new URL(`../docs/${name}`, import.meta.url), text);
for (const [path, text] of documentedSources()) {
  const file = new URL(`../${path}`, import.meta.url);
  if (readFileSync(file, "utf8") === text) continue;
  writeFileSync(file, text);
  console.log(`${path} has new comments: build and run this again, for docs/reference/api.md shows them`);
}
