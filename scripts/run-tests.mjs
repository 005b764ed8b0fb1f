// Runs every compiled test with node:test, one file at a time per core. Extra arguments are name filters on the file path.
//   node scripts/run-tests.mjs            all tests
//   node scripts/run-tests.mjs cache trie only files whose path contains "cache" or "trie"
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const filters = process.argv.slice(2);
const files = ["dist/src", "dist/test", "dist/web"]
  .filter((root) => existsSync(root))
  .flatMap((root) => readdirSync(root, { recursive: true }).map((name) => join(root, String(name))))
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => filters.length === 0 || filters.some((f) => file.includes(f)))
  .sort();
if (files.length === 0) {
  console.error(`no test file matches ${filters.join(" ")}`);
  process.exit(1);
}
const run = spawnSync(process.execPath, ["--expose-gc", "--test", "--test-concurrency=2", ...files], {
  stdio: "inherit",
});
process.exit(run.status ?? 1);
