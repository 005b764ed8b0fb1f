// Runs every compiled test with node:test, as many files at a time as a small machine has cores. Arguments are name filters on the
// file path.
//   node scripts/run-tests.mjs            all tests
//   node scripts/run-tests.mjs cache trie only files whose path contains "cache" or "trie"
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "node:test";
import { spec, tap } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const CONCURRENCY = 2;
/** Begun first, so that none of them is alone on the machine at the end. */
const LONGEST = [
  "cuda/compile",
  "sanitizers",
  "test/cli",
  "contract/",
  "fuzz",
  "invariance",
  "goldens",
  "test/server/",
];

if (globalThis.gc === undefined) {
  // Tests that weigh the heap collect it first; their processes take over this one's flags.
  const again = ["--expose-gc", fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  process.exit(spawnSync(process.execPath, again, { stdio: "inherit" }).status ?? 1);
}
const filters = process.argv.slice(2);
const rank = (file) => {
  const at = LONGEST.findIndex((name) => file.includes(name));
  return at < 0 ? LONGEST.length : at;
};
const files = ["dist/src", "dist/test", "dist/web"]
  .filter((root) => existsSync(root))
  .flatMap((root) => readdirSync(root, { recursive: true }).map((name) => join(root, String(name))))
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => filters.length === 0 || filters.some((f) => file.includes(f)))
  .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
if (files.length === 0) {
  console.error(`no test file matches ${filters.join(" ")}`);
  process.exit(1);
}
const reporter = process.stdout.isTTY ? new spec() : tap;
run({ files: files.map((file) => join(process.cwd(), file)), concurrency: CONCURRENCY })
  .on("test:fail", ({ todo }) => {
    if (todo === undefined || todo === false) process.exitCode = 1;
  })
  .compose(reporter)
  .pipe(process.stdout);
