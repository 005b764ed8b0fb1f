// Runs every compiled test with node:test, a process more at a time than there are cores, since some wait for what they started.
// Arguments are name filters on the file path.
//   node scripts/run-tests.mjs            all tests
//   node scripts/run-tests.mjs cache trie only files whose path contains "cache" or "trie"
//   node scripts/run-tests.mjs --unit     only tests beside the source; stack traces are of TypeScript
// PAGODA_REQUIRE names what must not be skipped (test-requirements.mjs), PAGODA_TEST_LIMIT how many seconds a test may take.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { run } from "node:test";
import { spec, tap } from "node:test/reporters";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { requirements } from "./test-requirements.mjs";

/** Begun first, so that none of them is alone on the machine at the end. */
const LONGEST = [
  "arm64",
  "sanitizers",
  "cuda/compile",
  "test/dashboard",
  "test-server",
  "goldens.test",
  "/test.test",
  "never-stuck",
  "test-cluster",
  "cluster/",
  "test/cli",
  "examples",
  "src-grammar",
  "invariance",
  "contract/",
  "test/server/",
  "test-cpu",
  "fuzz",
];
/** Folders of short tests. Those that leave the process as it was share one, since starting it takes longer. */
const SHORT =
  /^dist[\\/](src[\\/]\w+|web|test[\\/](?:attention|checklist|cluster|cpu|cuda|server)|test(?![\\/](?:dashboard|invariance|\w+[\\/])))[\\/]/;
const NEEDS_ITS_OWN = /\bprocess\.|\bglobalThis\b/;

const words = process.argv.slice(2);
const isUnit = words.includes("--unit");
if (globalThis.gc === undefined) {
  // Tests that weigh the heap collect it first; their processes take over this one's flags.
  const limits = ["--import", new URL("test-limits.mjs", import.meta.url).href];
  const flags = ["--expose-gc", ...(isUnit ? ["--enable-source-maps"] : []), ...limits];
  const again = [...flags, fileURLToPath(import.meta.url), ...words];
  process.exit(spawnSync(process.execPath, again, { stdio: "inherit" }).status ?? 1);
}
const requirementOf = requirements();
const filters = words.filter((word) => word !== "--unit");
/** A file has no more than that, however many tests it has. */
const FILE_LIMIT_MS = process.env.PAGODA_LONG_TESTS === "1" ? 4 * 3600_000 : 900_000;
/** The compiler leaves behind what it made of files that have been renamed or removed since. */
const hasSource = (file) => existsSync(relative("dist", file).replace(/\.js$/, ".ts"));
const rank = (file) => {
  const at = LONGEST.findIndex((name) => file.includes(name));
  return at < 0 ? LONGEST.length : at;
};
const files = (isUnit ? ["dist/src", "dist/web"] : ["dist/src", "dist/test", "dist/web"])
  .filter((root) => existsSync(root))
  .flatMap((root) => readdirSync(root, { recursive: true }).map((name) => join(root, String(name))))
  .filter((file) => file.endsWith(".test.js") && hasSource(file))
  .filter((file) => filters.length === 0 || filters.some((f) => file.includes(f)));
if (files.length === 0) {
  console.error(`no test file matches ${filters.join(" ")}`);
  process.exit(1);
}
// Whatever tests leave among temporary files goes with this folder.
const folder = mkdtempSync(join(tmpdir(), "pagoda-tests-"));
for (const name of ["TMPDIR", "TMP", "TEMP"]) process.env[name] = folder;
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const reporter = process.stdout.isTTY ? new spec() : tap;
const failures = [];
run({ files: processesFor(files), concurrency: availableParallelism() + 1, timeout: FILE_LIMIT_MS })
  .on("test:pass", ({ skip, name, file }) => {
    const requirement = requirementOf(skip);
    if (requirement === undefined) return;
    process.exitCode = 1;
    failures.push({ name, file, error: `skipped, but PAGODA_REQUIRE has ${requirement}: ${skip}` });
  })
  .on("test:fail", ({ todo, name, file, details }) => {
    if (todo !== undefined && todo !== false) return;
    process.exitCode = 1;
    if (details.error.failureType !== "subtestsFailed") failures.push({ name, file, error: details.error });
  })
  .compose(reporter)
  .on("end", sayFailures)
  .pipe(process.stdout);

/** Again at the very end: the log of three thousand tests is long, and often only its end is kept. */
function sayFailures() {
  for (const { name, file, error } of failures) {
    const text = `failed: ${file === undefined ? "" : `${relative(".", file)}: `}${name}\n${inspect(error.cause ?? error)}`;
    console.log(text.replace(/^/gm, "# "));
  }
}

/** What each process begins with: a test file, or a file that makes a suite of each short test of a folder, with hooks of its own. */
function processesFor(tests) {
  const shared = new Map();
  const begun = [];
  for (const test of tests) {
    const unit = SHORT.exec(test)?.[1].replace(/\W/, "-");
    if (unit === undefined || NEEDS_ITS_OWN.test(readFileSync(test, "utf8"))) begun.push(resolve(test));
    else shared.set(unit, [...(shared.get(unit) ?? []), test]);
  }
  for (const [name, members] of shared) {
    const file = join(folder, `${name}.test.mjs`);
    const suites = members.map((test) => {
      const [title, url] = [test, pathToFileURL(resolve(test)).href].map((text) => JSON.stringify(text));
      return `describe(${title}, () => import(${url}));\n`;
    });
    writeFileSync(file, `import { describe } from "node:test";\n${suites.join("")}`);
    begun.push(file);
  }
  return begun.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}
