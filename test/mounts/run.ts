// The handler in runtimes and frameworks that are too large to be installed with every test: Next.js, Bun and Deno as npm has them, with
// the packed package.
//   npm run test:mounts               all three
//   npm run test:mounts -- next       one of them
// On Bun and Deno an engine also answers on each device that is there, with the same words: webgpu on the machine's adapter, or on the one in
// software that Chromium brings.
// Needs the npm registry; everything else stays on this machine.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { freePort } from "../support/free-port.js";

const DEVICES = `import { createEngine } from "pagoda";

const said = new Set();
for (const device of process.argv.slice(2)) {
  const engine = await createEngine({ device });
  const { text } = await engine.generate("Once upon a time", { maxTokens: 16, temperature: 0 }).result();
  said.add(text);
  await engine.close();
}
if (said.size !== 1) throw new Error([...said].join("\\n"));
`;
const CHROMIUM = "/usr/lib/chromium";

interface Mount {
  readonly packages: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly command: (port: number) => readonly string[];
  readonly base: string;
}

const ENGINE =
  'import { createEngine, createHandler } from "pagoda";\n\nconst engine = await createEngine({ device: "wasm" });\n';

const MOUNTS: Readonly<Record<string, Mount>> = {
  next: {
    packages: ["next", "react", "react-dom"],
    files: {
      "next.config.mjs": 'export default { serverExternalPackages: ["pagoda"] };\n',
      "app/layout.js": "export default ({ children }) => <html><body>{children}</body></html>;\n",
      "app/page.js": 'export default () => "mine";\n',
      "app/api/llm/[...path]/route.js": `${ENGINE}const handler = createHandler(engine, { basePath: "/api/llm" });\nexport { handler as DELETE, handler as GET, handler as POST };\n`,
    },
    command: (port) => ["node_modules/next/dist/bin/next", "dev", "-H", "127.0.0.1", "-p", String(port)],
    base: "/api/llm",
  },
  bun: {
    packages: ["bun", "webgpu"],
    files: {
      "devices.js": DEVICES,
      "app.js": `${ENGINE}Bun.serve({ port: Number(process.argv[2]), hostname: "127.0.0.1", idleTimeout: 0, fetch: createHandler(engine) });\n`,
    },
    command: (port) => ["node_modules/bun/bin/bun.exe", "app.js", String(port)],
    base: "",
  },
  deno: {
    packages: ["deno", "webgpu"],
    files: {
      "devices.js": DEVICES,
      "app.js": `${ENGINE}Deno.serve({ port: Number(Deno.args[0]), hostname: "127.0.0.1" }, createHandler(engine));\n`,
    },
    command: (port) => ["node_modules/.bin/deno", "run", "-A", "app.js", String(port)],
    base: "",
  },
};

const folder = mkdtempSync(join(tmpdir(), "pagoda-mounts-"));
const asked = process.argv.slice(2);
try {
  run("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], process.cwd());
  for (const [name, mount] of Object.entries(MOUNTS))
    if (asked.length === 0 || asked.includes(name)) await tryMount(name, mount);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function run(command: string, args: readonly string[], cwd: string, env = process.env): void {
  const { status, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  assert.equal(status, 0, stderr);
}

async function tryMount(name: string, { packages, files, command, base }: Mount): Promise<void> {
  const app = join(folder, name);
  for (const [file, text] of Object.entries({ "package.json": '{ "type": "module", "private": true }\n', ...files })) {
    mkdirSync(dirname(join(app, file)), { recursive: true });
    writeFileSync(join(app, file), text);
  }
  const packed = join(folder, "pagoda-0.2.0.tgz");
  run("npm", ["install", "--no-audit", "--no-fund", "--silent", ...packages, packed], app);
  const port = await freePort();
  const [file, ...args] = command(port);
  const isScript = file!.includes("next/");
  const child = spawn(isScript ? process.execPath : join(app, file!), isScript ? [file!, ...args] : args, {
    cwd: app,
    env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1" },
    stdio: ["ignore", "ignore", "inherit"],
    detached: true,
  });
  try {
    await check(`http://127.0.0.1:${port}${base}`, child);
    console.log(`${name}: answers, streams, and sees clients leave`);
  } finally {
    process.kill(-child.pid!); // Next.js has processes of its own
    if (child.exitCode === null) await once(child, "exit");
  }
  if (files["devices.js"] === undefined) return;
  const begin = args.slice(0, args.indexOf("app.js"));
  const icd = `${CHROMIUM}/vk_swiftshader_icd.json`;
  const software = existsSync(icd) ? { VK_ICD_FILENAMES: icd, LD_LIBRARY_PATH: CHROMIUM } : {};
  const env = { ...software, ...process.env };
  run(join(app, file!), [...begin, "devices.js", "wasm", "webgpu"], app, env);
  console.log(`${name}: the same words on wasm and webgpu`);
}

async function check(url: string, child: ChildProcess): Promise<void> {
  await untilUp(`${url}/health`, child);
  const messages = [{ role: "user", content: "a" }];
  const post = (body: object, signal: AbortSignal | null = null) =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ messages, ...body }),
      signal,
    });
  const whole = (await (await post({ max_tokens: 3 })).json()) as { usage: { completion_tokens: number } };
  assert.equal(whole.usage.completion_tokens, 3);
  const text = await (await post({ max_tokens: 3, stream: true })).text();
  assert.ok(text.trimEnd().endsWith("data: [DONE]"), text);
  const leaving = new AbortController();
  const endless = await post({ stream: true, ignore_eos: true }, leaving.signal);
  await endless.body!.getReader().read();
  leaving.abort();
  for (let i = 0; i < 100; i++) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    if (/^pagoda_requests_finished_total\{.*abort.*\} 1$/m.test(metrics)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail("the answer of a client that left goes on");
}

async function untilUp(url: string, child: ChildProcess): Promise<void> {
  for (let i = 0; i < 600; i++) {
    assert.equal(child.exitCode, null, "it has ended");
    const isUp = await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isUp) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert.fail("it does not answer");
}
