// Do the tests bite? Changes one small thing of the compiled source at a time and runs the tests that reach it; a change that no
// test notices is shown, and is a test that is missing (or a change without effect: look before you write one).
//   npm run mutate -- [--files PATH-PART,...] [--count 40] [--seed 1] [--budget 60] [--tests PATH-PART,...] [--line N] [--list]
// Only tests that run the line are tried (reach.mjs), until one fails or `budget` seconds of processor time are spent; with --tests
// those alone, in that order.
// --line takes only those of one line, --list only shows them. Works in a temporary copy; the tree itself is not touched.
// Run `npm run build` first.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { copyOfTree } from "./copy-of-tree.mjs";
import { mutationsOf } from "./mutations.mjs";
import { Reach } from "./reach.mjs";
import { importersOf, relatedTests } from "./related-tests.mjs";
import { runTest } from "./run-test.mjs";

const { values } = parseArgs({
  options: {
    files: { type: "string", default: "" },
    count: { type: "string", default: "40" },
    seed: { type: "string", default: "1" },
    budget: { type: "string", default: "60" },
    tests: { type: "string", default: "" },
    line: { type: "string", default: "" },
    list: { type: "boolean", default: false },
  },
});
/** Tests that are tried before it is known whether they run the line. */
const NUM_LIKELY = 3;
const partsOf = (list) => list.split(",").filter((part) => part !== "");
const filters = partsOf(values.files);
const random = generator(Number(values.seed));

const root = copyOfTree();
process.on("exit", () => rmSync(join(root, ".."), { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const importers = importersOf(root, ["dist/src", "dist/test"]);
const sources = [...new Set([...importers.keys(), ...[...importers.values()].flat()])]
  .filter((file) => file.startsWith("dist/src/") && !file.endsWith(".test.js"))
  .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)))
  .sort();
const candidates = sources.flatMap((file) =>
  mutationsOf(readFileSync(join(root, file), "utf8"))
    .filter(({ line }) => values.line === "" || line === Number(values.line))
    .map((mutation) => ({ file, ...mutation })),
);
console.log(`${candidates.length} possible mutations in ${sources.length} files`);

const count = Math.min(Number(values.count), candidates.length);
const chosen = Array.from({ length: count }, () => candidates.splice(Math.floor(random() * candidates.length), 1)[0]);
const ownTests = partsOf(values.tests).flatMap((part) =>
  ["dist/src", "dist/test"]
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)))
    .filter((file) => file.endsWith(".test.js") && file.includes(part)),
);
const reach = values.list ? null : new Reach(root);
let numCaught = 0;
for (const mutation of chosen) {
  const name = `${mutation.file.slice("dist/".length)}:${mutation.line}`;
  const change = `${name}  ${mutation.from}  ->  ${mutation.to || "(left out)"}`;
  if (reach === null) {
    console.log(change);
    continue;
  }
  const { killer, numRun, numLeft } = await tried(mutation);
  if (killer !== null) numCaught++;
  console.log(`${killer === null ? "SURVIVED" : "caught  "} ${change}`);
  const left = numLeft > 0 ? `, ${numLeft} more may reach it and were not run (--budget)` : "";
  console.log(killer === null ? `         after ${numRun} test files${left}` : `         by ${killer}`);
}
if (reach !== null) console.log(`\n${numCaught} of ${count} caught (${((100 * numCaught) / count).toFixed(1)} %)`);

/** Runs tests with the mutation in place until one fails: the likeliest, then those known to run the line, then all others. */
async function tried({ file, line, text }) {
  const path = join(root, file);
  const place = { file, line, original: readFileSync(path, "utf8") };
  if (ownTests.length > 0) return triedBy(ownTests, path, text, place.original);
  const tests = relatedTests(file, importers);
  const known = tests.filter((test) => reach.has(test));
  known.sort((a, b) => reach.secondsAt(a, place) - reach.secondsAt(b, place));
  let spent = 0;
  let numRun = 0;
  for (const test of new Set([...tests.slice(0, NUM_LIKELY), ...known, ...tests])) {
    if (spent > Number(values.budget)) return { killer: null, numRun, numLeft: tests.length - numRun };
    if (!reach.has(test)) spent += await reach.note(test);
    const expectedSeconds = reach.secondsAt(test, place);
    if (expectedSeconds === null) continue;
    writeFileSync(path, text);
    const run = await runTest(root, test, { expectedSeconds });
    writeFileSync(path, place.original);
    spent += run.seconds;
    numRun++;
    if (run.status !== 0) return { killer: run.hangs ? `${test}, which hangs` : test, numRun, numLeft: 0 };
  }
  return { killer: null, numRun, numLeft: 0 };
}

/** The tests that were asked for, in their order. */
async function triedBy(tests, path, text, original) {
  writeFileSync(path, text);
  try {
    for (const [i, test] of tests.entries()) {
      const { status, hangs } = await runTest(root, test, { expectedSeconds: 30 });
      if (status !== 0) return { killer: hangs ? `${test}, which hangs` : test, numRun: i + 1, numLeft: 0 };
    }
    return { killer: null, numRun: tests.length, numLeft: 0 };
  } finally {
    writeFileSync(path, original);
  }
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
