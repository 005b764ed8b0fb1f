// `npm run templates -- PLACE...`: renders every chat template found there (find.ts) for every conversation of test/fixtures/jinja
// with Pagoda and with Python's jinja2, and says where they differ. Ends with 1 if they do anywhere.

import { findTemplates } from "./find.js";
import { firstDifference, renderAll, renderAllInJinja } from "./renders.js";

const places = process.argv.slice(2);
const templates = findTemplates(places);
if (templates.length === 0) {
  console.error("npm run templates -- PLACE...    files or folders with templates: *.jinja, model folders, *.gguf");
  process.exit(2);
}
const { jinja2, renders } = renderAllInJinja(templates.map(({ source }) => source));
const width = Math.max("template".length, ...templates.map(({ name }) => name.length));
const total = { renders: 0, refused: 0, differing: 0 };
const row = (name: string, ...cells: unknown[]) =>
  console.log(name.padEnd(width) + cells.map((cell) => String(cell).padStart(10)).join(""));
row("template", "renders", "refused", "differing");
for (const [i, { name, source }] of templates.entries()) {
  const theirs = renders[i]!;
  const differences = renderAll(source).map((ours, chat) => firstDifference(ours, theirs[chat]!));
  const refused = theirs.filter((one) => "error" in one).length;
  const differing = differences.filter((one) => one !== null).length;
  total.renders += theirs.length;
  total.refused += refused;
  total.differing += differing;
  row(name, theirs.length, refused, differing);
  for (const [chat, what] of differences.entries()) if (what !== null) console.log(`  conversation ${chat}: ${what}`);
}
row(`${templates.length} templates`, total.renders, total.refused, total.differing);
console.log(`refused: jinja2 ${jinja2} ends with an error, and so must Pagoda.`);
process.exitCode = total.differing > 0 ? 1 : 0;
