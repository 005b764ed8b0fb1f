// Records a shell as an SVG that plays itself: what is typed and what the programs write, at the pace they wrote it. Pauses of more than a
// second are cut to one. Needs bash and util-linux' script; the recording is of a real run.
//   node scripts/record-terminal.mjs FOLDER STEPS.json OUT.svg
// FOLDER is where the shell runs; `npx pagoda` is this clone there. STEPS: [{ "type": "ls", "until": "regular expression of what ends it" }].
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [COLUMNS, ROWS] = [104, 24];
const [CELL, LINE, EDGE] = [8.43, 20, 16];
const LONGEST_PAUSE = 1;
const KEY_MS = 35;
// biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal gets
const PARTS = /\x1b\[[?0-9;]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|[\s\S]/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape, bracket, numbers, a letter
const SEQUENCE = /^\x1b\[([0-9;]*)([A-Za-z])$/;

const [folder, stepsFile, out] = process.argv.slice(2);
mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
const bin = join(folder, "node_modules/.bin/pagoda");
rmSync(bin, { force: true });
symlinkSync(resolve("bin/pagoda.js"), bin);

const env = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  TERM: "xterm",
  PS1: "$ ",
  NO_COLOR: "1",
  npm_config_loglevel: "error",
};
const shell = spawn("script", ["-qec", "bash --norc --noprofile", "/dev/null"], { cwd: folder, env, stdio: "pipe" });
/** What the terminal got: [seconds, text]. */
const events = [];
let seen = "";
let isRecording = false;
shell.stdout.on("data", (data) => {
  seen += data;
  if (isRecording) events.push([performance.now() / 1000, String(data)]);
});
async function until(pattern) {
  for (let i = 0; i < 2400 && !pattern.test(seen); i++) await sleep(50);
  if (!pattern.test(seen)) throw new Error(`${pattern} was not seen in: ${seen}`);
}

shell.once("exit", () => {
  if (!isRecording) return;
  console.error(`the shell ended: ${seen}`);
  process.exit(1);
});
await until(/\$ $/);
shell.stdin.write(`stty cols ${COLUMNS} rows ${ROWS}; bind 'set enable-bracketed-paste off'\n`);
await sleep(500);
seen = "";
isRecording = true;
shell.stdin.write("\n");
await sleep(300);
try {
  for (const { type, until: end } of JSON.parse(readFileSync(stepsFile, "utf8"))) {
    for (const key of type) {
      shell.stdin.write(key);
      await sleep(KEY_MS);
    }
    seen = "";
    shell.stdin.write("\n");
    await until(new RegExp(end));
    await sleep(200);
  }
} finally {
  isRecording = false;
  shell.stdin.write("kill -- -$(jobs -p) 2>/dev/null; exit\n");
}
await new Promise((done) => shell.once("close", done));
writeFileSync(out, draw(screenOf(events)));
console.log(out);

/** The last screen: each row a list of cells that know when they were written. */
function screenOf(all) {
  const rows = [[]];
  let [row, column, time, before] = [0, 0, 0, all[0][0]];
  let isDim = false;
  for (const [at, text] of all) {
    time += Math.min(at - before, LONGEST_PAUSE);
    before = at;
    for (const [part] of text.matchAll(PARTS)) {
      const code = SEQUENCE.exec(part);
      const many = Number(code?.[1] || 1);
      if (part === "\r") column = 0;
      else if (part === "\b") column = Math.max(0, column - 1);
      else if (part === "\n") {
        row++;
        rows[row] ??= [];
      } else if (code?.[2] === "G") column = many - 1;
      else if (code?.[2] === "K") rows[row].length = Math.min(rows[row].length, column);
      else if (code?.[2] === "J") {
        rows.length = row + 1;
        rows[row].length = Math.min(rows[row].length, column);
      } else if (code?.[2] === "A") row = Math.max(0, row - many);
      else if (code?.[2] === "C") column += many;
      else if (code?.[2] === "D") column = Math.max(0, column - many);
      else if (code?.[2] === "m") isDim = code[1].split(";").includes("2");
      else if (part.codePointAt(0) >= 32) {
        if (column >= COLUMNS) {
          row++;
          column = 0;
          rows[row] ??= [];
        }
        rows[row][column++] = { character: part, time, isDim };
      }
    }
  }
  while (rows.length > 0 && rows[0].length <= 2) rows.shift(); // the prompt before the first command
  while (rows.length > 0 && rows.at(-1).length <= 2) rows.pop();
  return { rows, end: time };
}

function draw({ rows }) {
  const start = rows[0][0].time;
  const height = rows.length * LINE + 2 * EDGE;
  const width = Math.ceil(COLUMNS * CELL + 2 * EDGE);
  const asXml = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const lines = rows.map((cells, i) => {
    const spans = [];
    for (let j = 0; j < cells.length; j++) {
      const cell = cells[j] ?? { character: " ", time: spans.at(-1)?.time ?? start, isDim: false };
      const last = spans.at(-1);
      if (last?.time === cell.time && last.isDim === cell.isDim) last.text += cell.character;
      else spans.push({ time: cell.time, isDim: cell.isDim, text: cell.character });
    }
    const drawn = spans.map(
      ({ time, isDim, text }) =>
        `<tspan${isDim ? ' opacity=".6"' : ""} style="animation-delay:${Math.max(0, time - start).toFixed(2)}s">${asXml(text)}</tspan>`,
    );
    return `<text x="${EDGE}" y="${EDGE + 15 + i * LINE}" xml:space="preserve">${drawn.join("")}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" fill="#e6e6e6">
<style>tspan{animation:show 1ms both}@keyframes show{from{fill-opacity:0}to{fill-opacity:1}}@media(prefers-reduced-motion){tspan{animation:none}}</style>
<rect width="100%" height="100%" rx="8" fill="#1c1b1a"/>
${lines.join("\n")}
</svg>
`;
}
