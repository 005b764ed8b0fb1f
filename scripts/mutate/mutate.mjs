// Do the tests bite? Changes one small thing of the compiled source at a time and runs the tests that run that place, until one fails;
// a change that no test notices is shown, and is a test that is missing (or a change without effect: look before you write one).
//   npm run mutate -- [--files PATH-PART,...] [--count 40] [--seed 1] [--budget 120] [--jobs 2] [--tests PATH-PART,...] [--line N]
//                     [--list] [--fresh]
// Which tests run a place is recorded by running each of them once (records.mjs); --fresh records again.
// A change is given up after `budget` seconds of processor time; the tests that are left are counted. --tests tries those alone,
// --line takes only changes of one line, --list only shows them. Works in temporary copies; the tree itself is not touched.
// Run `npm run build` first.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { copyOfTree } from "./copy-of-tree.mjs";
import { mutationsOf } from "./mutations.mjs";
import { Records } from "./records.mjs";
import { runTest } from "./run-test.mjs";

const { values } = parseArgs({
  options: {
    files: { type: "string", default: "" },
    count: { type: "string", default: "40" },
    seed: { type: "string", default: "1" },
    budget: { type: "string", default: "120" },
    jobs: { type: "string", default: String(availableParallelism()) },
    tests: { type: "string", default: "" },
    line: { type: "string", default: "" },
    list: { type: "boolean", default: false },
    fresh: { type: "boolean", default: false },
  },
});

const isTest = (file) => file.endsWith(".test.js");
const sources = compiled(["dist/src"], values.files).filter((file) => !isTest(file));
const candidates = sources.flatMap((file) =>
  mutationsOf(readFileSync(file, "utf8"))
    .filter(({ line }) => values.line === "" || line === Number(values.line))
    .map((mutation) => ({ file, ...mutation })),
);
console.log(`${candidates.length} possible mutations in ${sources.length} files`);
const random = generator(Number(values.seed));
const count = Math.min(Number(values.count), candidates.length);
const chosen = Array.from({ length: count }, () => candidates.splice(Math.floor(random() * candidates.length), 1)[0]);
if (values.list) {
  for (const mutation of chosen) console.log(changeOf(mutation));
  process.exit();
}

const roots = Array.from({ length: Number(values.jobs) }, copyOfTree);
process.on("exit", () => {
  for (const root of roots) rmSync(join(root, ".."), { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const records = new Records();
const tests = compiled(["dist/src", "dist/test", "dist/web"], values.tests).filter(isTest);
const missing = records.missing(tests, [...new Set(chosen.map(({ file }) => file))], values.fresh);
if (missing.length > 0) console.log(`recording what ${missing.length} of ${tests.length} test files run`);
await inEveryRoot(missing, async (root, test) => {
  if (!(await records.note(root, test))) console.log(`${test} fails as it is, and is left out`);
});

const tally = { caught: 0, survived: 0, unreached: 0 };
await inEveryRoot(chosen, async (root, mutation) => {
  const { verdict, remark } = await tried(root, mutation);
  tally[verdict]++;
  console.log(`${verdict.toUpperCase().padEnd(9)} ${changeOf(mutation)}\n          ${remark}`);
});
const share = ((100 * tally.caught) / count).toFixed(1);
console.log(
  `\n${tally.caught} of ${count} caught (${share} %), ${tally.survived} survived, ${tally.unreached} reached by no test`,
);

/** Runs tests with the mutation in place until one fails. */
async function tried(root, { file, offset, text }) {
  const covering = records.testsAt(file, offset);
  if (covering.length === 0) return { verdict: "unreached", remark: "no test runs it" };
  const path = join(root, file);
  const original = readFileSync(path, "utf8");
  writeFileSync(path, text);
  try {
    let spent = 0;
    for (const [numRun, { test, seconds: expectedSeconds }] of covering.entries()) {
      if (spent > Number(values.budget)) {
        return {
          verdict: "survived",
          remark: `${numRun} test files, ${covering.length - numRun} more not run (--budget)`,
        };
      }
      const { status, hangs, seconds } = await runTest(root, test, { expectedSeconds });
      spent += seconds;
      if (status !== 0) return { verdict: "caught", remark: hangs ? `by ${test}, which hangs` : `by ${test}` };
    }
    return { verdict: "survived", remark: `all ${covering.length} test files that run it` };
  } finally {
    writeFileSync(path, original);
  }
}

/** As many of `items` at a time as there are copies of the tree. */
async function inEveryRoot(items, work) {
  const rest = items.values();
  await Promise.all(
    roots.map(async (root) => {
      for (const item of rest) await work(root, item);
    }),
  );
}

/** Compiled files whose path has one of the parts; all of them when there are none. */
function compiled(folders, parts) {
  const wanted = parts.split(",").filter((part) => part !== "");
  return folders
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)))
    .filter((file) => file.endsWith(".js") && (wanted.length === 0 || wanted.some((part) => file.includes(part))))
    .sort();
}

function changeOf({ file, line, from, to }) {
  return `${file.slice("dist/".length)}:${line}  ${from}  ->  ${to || "(left out)"}`;
}

/** Numbers in [0, 1) from a seed (mulberry32). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
