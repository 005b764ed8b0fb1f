// Writes the generated pages of docs/ from the compiled tables: npm run build && node scripts/make-docs.mjs
import { writeFileSync } from "node:fs";
import { generatedPages } from "../dist/src/cli/generated-docs.js";

for (const [name, text] of generatedPages()) writeFileSync(new URL(`../docs/${name}`, import.meta.url), text);
