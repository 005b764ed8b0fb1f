// The package as npm would publish it, looked at by publint and @arethetypeswrong/cli, and by what we promise of it ourselves.
// Needs a built tree: npm run build && npm ci --prefix tools && node tools/check-package.mjs
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "pagoda-package-"));
const problems = [];
/** Unpacked: 31.5 MB of it are the bundled model. */
const MOST_BYTES = 43e6;
try {
  const said = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], { cwd: root });
  const [{ filename, size, unpackedSize, files }] = JSON.parse(said);
  const mb = (bytes) => (bytes / 2 ** 20).toFixed(1);
  console.log(`${filename}: ${mb(size)} MiB, ${mb(unpackedSize)} MiB unpacked, ${files.length} files`);

  if (unpackedSize > MOST_BYTES) problems.push(`${unpackedSize} bytes unpacked, more than ${MOST_BYTES}`);
  const own = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const { messages } = await publint({ pkgDir: root, strict: true });
  problems.push(...messages.map((message) => `publint: ${formatMessage(message, own)}`));

  // Node 10's way of finding types knows no "exports": pagoda/ai and pagoda/browser need a newer one, and so does every ESM package.
  const attw = join(import.meta.dirname, "node_modules/@arethetypeswrong/cli/dist/index.js");
  try {
    execFileSync(process.execPath, [attw, join(folder, filename), "--profile", "esm-only", "--format", "ascii"], {
      encoding: "utf8",
    });
  } catch (error) {
    problems.push(`@arethetypeswrong/cli:\n${error.stdout}`);
  }

  const unwanted = files.filter(({ path }) => /^docs\/|\.map$|\.test\.|\.(png|jpe?g)$/.test(path));
  problems.push(...unwanted.map(({ path }) => `${path} does not belong into the package`));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);
