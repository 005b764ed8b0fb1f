// Runs one of examples/: npm run example -- NAME [ARGUMENTS]. Compiles the project first where that was not done.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";

const names = readdirSync("examples").map((file) => file.replace(/\.ts$/, ""));
const name = process.argv[2] ?? "";
if (!names.includes(name)) {
  console.error(`npm run example -- NAME, where NAME is one of: ${names.join(", ")}`);
  process.exit(2);
}
if (!existsSync(`dist/examples/${name}.js`)) {
  const { status } = spawnSync("npx", ["tsc", "-p", "tsconfig.json"], { stdio: "inherit", shell: true });
  if (status !== 0) process.exit(1);
}
process.argv.splice(1, 2, `dist/examples/${name}.js`); // what follows the name is the example's own
await import(`../dist/examples/${name}.js`);
