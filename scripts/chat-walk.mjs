// The way of a chat through the source, as it is walked: which files' functions run between `engine.chat()` and the end of its answer, once
// the engine is warm. Text (templates, tokens), the parts of an answer, the model's forward, guesses, grammars and the device itself are rooms entered by one
// door each; they are left out.
//   npm run build && node scripts/chat-walk.mjs            prints the table
//   npm run build && node scripts/chat-walk.mjs --write    puts it into docs/internals/architecture.md
import { readFileSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { createEngine } from "../dist/src/index.js";

const PAGE = "docs/internals/architecture.md";
const BEGIN = "<!-- the walk: node scripts/chat-walk.mjs --write -->";
const END = "<!-- end of the walk -->";
/** In the order they are first entered. */
const ROOMS = ["engine/client", "engine", "engine/core", "scheduler", "cache", "core", "attention", "sampler"];

const messages = (animal) => [{ role: "user", content: `Tell me of a small ${animal} in a large wood.` }];

async function walkedFiles() {
  const engine = await createEngine({ model: "models/pagoda-stories-16m", device: "null", worker: false });
  const session = new Session();
  session.connect();
  try {
    const chat = async (animal) => {
      for await (const _ of engine.chat(messages(animal), { maxTokens: 20, temperature: 0, ignoreEos: true }));
    };
    await chat("fox");
    await session.post("Profiler.enable");
    await session.post("Profiler.startPreciseCoverage", { callCount: true });
    await session.post("Profiler.takePreciseCoverage");
    await chat("owl");
    const { result } = await session.post("Profiler.takePreciseCoverage");
    return result.filter(hasRun).map(({ url }) => url.split("/dist/src/")[1].replace(/\.js$/, ".ts"));
  } finally {
    session.disconnect();
    await engine.close();
  }
}

const hasRun = ({ url, functions }) =>
  url.includes("/dist/src/") && functions.some(({ ranges }) => ranges[0].count > 0);
const folderOf = (file) => file.slice(0, file.lastIndexOf("/"));

/** The first sentence of the comment at a file's head. */
function purposeOf(text) {
  const head = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith("// ")) break;
    head.push(line.slice(3).trim());
  }
  const sentence = /^.*?[.:;](?=\s|$)/.exec(head.join(" "))?.[0] ?? head.join(" ");
  return sentence.replace(/[.:;]$/, "").replaceAll("|", "\\|");
}

const files = (await walkedFiles())
  .filter((file) => ROOMS.includes(folderOf(file)))
  .sort((a, b) => ROOMS.indexOf(folderOf(a)) - ROOMS.indexOf(folderOf(b)) || (a < b ? -1 : 1));
let sum = 0;
const rows = files.map((file, i) => {
  const text = readFileSync(`src/${file}`, "utf8");
  const lines = text.split("\n").length - 1;
  sum += lines;
  return `| ${i + 1} | \`${file}\` | ${lines} | ${purposeOf(text)} |`;
});
const table = [
  "| # | file | lines | what it is |",
  "|---|---|---|---|",
  ...rows,
  "",
  `${files.length} files, ${sum} lines.`,
].join("\n");
if (process.argv.includes("--write")) {
  const page = readFileSync(PAGE, "utf8");
  const [before, after] = [page.split(BEGIN)[0], page.split(END)[1]];
  writeFileSync(PAGE, `${before}${BEGIN}\n${table}\n${END}${after}`);
} else console.log(table);
