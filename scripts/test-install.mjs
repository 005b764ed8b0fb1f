// The package as a stranger gets it: packed, installed from the file into an empty folder with install scripts blocked and no compiler on
// the path, and the six lines of the README run there. Needs a built tree (npm run build) and the registry for the dependencies.
//   npm run test:install                  npm --ignore-scripts, and pnpm with its defaults
//   npm run test:install -- --prebuilt    with the package of this system beside it (scripts/build-packages.mjs)
//   npm run test:install -- --next        a Next.js app with the one setting of docs/guide/platforms.md: built, started, asked
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), "pagoda-install-"));
const LIMIT_S = 5;
const SIX_LINES = `import { createEngine } from "pagoda";

const engine = await createEngine();
const answer = engine.chat("Tell me a story about a dragon.", { maxTokens: 32 });
for await (const chunk of answer) process.stdout.write(chunk.text);
await engine.close();
`;
const NEXT_APP = {
  "next.config.mjs": `export default { serverExternalPackages: ["pagoda"] };\n`,
  "app/layout.js": `export default ({ children }) => <html lang="en"><body>{children}</body></html>;\n`,
  "app/page.js": `export default () => <p>Pagoda</p>;\n`,
  "app/story/route.js": `import { createEngine } from "pagoda";

export const dynamic = "force-dynamic";
export async function GET() {
  const engine = await createEngine({ device: "wasm" });
  const { text } = await engine.chat("Tell me a story about a dragon.", { maxTokens: 16 }).result();
  await engine.close();
  return Response.json({ text });
}
`,
};

/** Node and nothing else on the path: no compiler. */
const bare = join(folder, "bin");
mkdirSync(bare);
symlinkSync(process.execPath, join(bare, "node"));
const strangersEnv = { ...process.env, PATH: bare, CXX: "" };

function run(command, args, cwd, env = process.env) {
  const said = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (said.status === 0) return said.stdout;
  throw new Error(`${command} ${args.join(" ")}\n${said.stdout ?? ""}${said.stderr ?? said.error}`);
}

const packed = (from) =>
  join(folder, run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder, from], root).trim());

function emptyProject(name, files = {}) {
  const cwd = join(folder, name);
  for (const [file, text] of Object.entries({
    "package.json": `{ "name": "app", "private": true, "type": "module" }\n`,
    ...files,
  })) {
    mkdirSync(dirname(join(cwd, file)), { recursive: true });
    writeFileSync(join(cwd, file), text);
  }
  return cwd;
}

function sixLines(name, install, tarballs) {
  const cwd = emptyProject(name, { "six-lines.mjs": SIX_LINES });
  run(install[0], [...install.slice(1), ...tarballs], cwd);
  const start = performance.now();
  const said = run(process.execPath, ["six-lines.mjs"], cwd, strangersEnv);
  const seconds = (performance.now() - start) / 1000;
  console.log(`${name}: ${said.length} characters after ${seconds.toFixed(1)} s`);
  if (said.length < 20) throw new Error(`${name}: no answer`);
  if (seconds > LIMIT_S) throw new Error(`${name}: ${seconds.toFixed(1)} s, more than ${LIMIT_S}`);
}

async function nextApp(tarball) {
  const cwd = emptyProject("next", NEXT_APP);
  run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", "next", "react", "react-dom", tarball], cwd);
  const next = join(cwd, "node_modules", "next", "dist", "bin", "next");
  run(process.execPath, [next, "build"], cwd);
  const server = spawn(process.execPath, [next, "start", "--port", "0"], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let said = "";
    for await (const chunk of server.stdout) {
      said += chunk;
      if (/http:\/\/localhost:\d+/.test(said) && /Ready/.test(said)) break;
    }
    const [address] = /http:\/\/localhost:\d+/.exec(said);
    const { text } = await (await fetch(`${address}/story`)).json();
    if (!(text?.length > 10)) throw new Error(`next: ${text}`);
    console.log(`next: built with serverExternalPackages, /story says ${JSON.stringify(text.slice(0, 40))}`);
  } finally {
    server.kill();
  }
}

try {
  const tarball = packed(root);
  if (process.argv.includes("--next")) await nextApp(tarball);
  else {
    const system = `${process.platform}-${process.arch}`;
    const tarballs = [tarball];
    if (process.argv.includes("--prebuilt")) tarballs.push(packed(join(root, "packages", system)));
    sixLines("npm", ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], tarballs);
    sixLines("pnpm", ["npx", "--yes", "pnpm@10", "add"], tarballs);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
