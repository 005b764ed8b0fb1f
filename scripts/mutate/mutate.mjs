// Do the tests bite? Changes one small thing of the compiled source at a time and runs the tests that reach it; a change that no
// test notices is shown, and is a test that is missing (or a change without effect: look before you write one).
//   npm run mutate -- [--files PATH-PART,...] [--count 40] [--seed 1] [--timeout 240] [--nearest N]
// With --nearest only the N test files nearest by imports are run: quicker, and a survivor may still be caught by one further away.
// Works in a temporary copy; the tree itself is not touched. Run `npm run build` first.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { mutationsOf } from "./mutations.mjs";
import { importersOf, relatedTests } from "./related-tests.mjs";

const { values } = parseArgs({
  options: {
    files: { type: "string", default: "" },
    count: { type: "string", default: "40" },
    seed: { type: "string", default: "1" },
    timeout: { type: "string", default: "240" },
    nearest: { type: "string", default: "1000" },
  },
});
const filters = values.files.split(",").filter((part) => part !== "");
const random = generator(Number(values.seed));

// The copy has a folder of its own, so that ../shared (the golden checkpoints) can stand beside it.
const folder = mkdtempSync(join(tmpdir(), "pagoda-mutate-"));
const root = join(folder, "pagoda");
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const name of ["dist", "src", "bin", "native", "scripts", "docs", "web", "test", "package.json"]) {
  cpSync(name, join(root, name), { recursive: true });
}
for (const name of ["node_modules", "models", "build"]) symlinkSync(resolve(name), join(root, name));
if (existsSync("../shared")) symlinkSync(resolve("../shared"), join(folder, "shared"));

const importers = importersOf(root, ["dist/src", "dist/test"]);
const sources = [...new Set([...importers.keys(), ...[...importers.values()].flat()])]
  .filter((file) => file.startsWith("dist/src/") && !file.endsWith(".test.js"))
  .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)))
  .sort();
const candidates = sources.flatMap((file) =>
  mutationsOf(readFileSync(join(root, file), "utf8")).map((mutation) => ({ file, ...mutation })),
);
console.log(`${candidates.length} possible mutations in ${sources.length} files`);

const survivors = [];
const count = Math.min(Number(values.count), candidates.length);
for (let i = 0; i < count; i++) {
  const [mutation] = candidates.splice(Math.floor(random() * candidates.length), 1);
  const killer = runWith(mutation);
  const name = `${mutation.file.slice("dist/".length)}:${mutation.line}`;
  if (killer === null) survivors.push(mutation);
  console.log(
    `${killer === null ? "SURVIVED" : "caught  "} ${name}  ${mutation.from}  ->  ${mutation.to || "(left out)"}`,
  );
  if (killer !== null) console.log(`         by ${killer}`);
}
console.log(
  `\n${count - survivors.length} of ${count} caught (${((100 * (count - survivors.length)) / count).toFixed(1)} %)`,
);

/** The first test file that fails with the mutation in place; null when all pass. */
function runWith({ file, text }) {
  const path = join(root, file);
  const original = readFileSync(path, "utf8");
  writeFileSync(path, text);
  try {
    for (const test of relatedTests(file, importers).slice(0, Number(values.nearest))) {
      const { status } = spawnSync(process.execPath, ["--expose-gc", "--test", test], {
        cwd: root,
        timeout: Number(values.timeout) * 1000,
        stdio: "ignore",
      });
      if (status !== 0) return test;
    }
    return null;
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
