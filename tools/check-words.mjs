// Spelling of what people read: pages, options, errors, and the words of the command line and the dashboard. tools/words.txt has what no
// dictionary knows.
//   npm ci --prefix tools && node tools/check-words.mjs
import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const places = ["*.md", "src/core/errors.ts", "src/config/*.ts", "src/cli/**/*.ts", "web/src/view/**/*.ts"];
const files = execFileSync("git", ["ls-files", ...places], { cwd: root, encoding: "utf8" })
  .trim()
  .split("\n")
  .filter((file) => !/\.test\.ts$|fixtures/.test(file));
const cspell = join(import.meta.dirname, "node_modules/cspell/bin.mjs");
const flags = ["lint", "--config", "tools/cspell.json", "--no-progress", "--show-suggestions"];
process.exit(spawnSync(process.execPath, [cspell, ...flags, ...files], { cwd: root, stdio: "inherit" }).status ?? 1);
