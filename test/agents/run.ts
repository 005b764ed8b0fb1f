// Coding agents as npm has them, unmodified, against `pagoda serve` through `pagoda launch`: each does the same small task twice. The
// answers are those of a scripted model, so the task is the same every time; the second time its prompt must come from the cache.
//   npm run test:agents                      Claude Code, Codex and opencode
//   npm run test:agents -- claude --verbose  one of them, with what it says
//   npm run test:agents -- --packages=FOLDER installs them there once, instead of anew
// Needs the npm registry for the agents; everything else stays on this machine: other hosts are behind a proxy that is not there.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { AGENTS } from "../../src/cli/server/agents.js";
import { type Script, writeScriptedModel } from "../support/scripted-model.js";
import { startProcess } from "../support/served-process.js";

const FILE = "made.txt";
const DONE = "The file is written; the task is done.";
const LEAST_CACHED = 0.9;
const LIMIT_MS = 180_000;
const TASK = `Write ${FILE}`;

/** Each agent's own shell tool, under the names it has had. */
const SHELLS: Readonly<Record<string, object>> = {
  Bash: { command: `echo by-agent > ${FILE}`, description: "Write a file" },
  exec_command: { cmd: `echo by-agent > ${FILE}` },
  shell_command: { command: `echo by-agent > ${FILE}` },
  shell: { command: ["bash", "-lc", `echo by-agent > ${FILE}`] },
  bash: { command: `echo by-agent > ${FILE}`, description: "Write a file" },
};

const SCRIPTS: readonly Script[] = [
  { when: "numResults > 0", answer: [DONE] },
  ...Object.entries(SHELLS).map(([name, args]) => ({
    when: `'${name}' in names`,
    answer: [`The shell can do that.\n<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`],
  })),
  { when: "true", answer: ["A small task"] }, // asked for without tools: a title
];

/** How each is told to do one task and end. */
const ONE_TASK: Readonly<Record<string, readonly string[]>> = {
  claude: ["-p", TASK, "--allowedTools", "Bash"],
  codex: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
  opencode: ["run", TASK],
};

const flags = process.argv.slice(2).filter((word) => word.startsWith("--"));
const named = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const isVerbose = flags.includes("--verbose");
const agents = named.length === 0 ? Object.keys(AGENTS) : named;

const folder = mkdtempSync(join(tmpdir(), "pagoda-agents-"));
const packages = flags.find((flag) => flag.startsWith("--packages="))?.slice(11) ?? join(folder, "packages");
const model = writeScriptedModel(SCRIPTS);
try {
  for (const name of agents) await install(AGENTS[name]!.npm);
  for (const name of agents) await tryAgent(name);
} finally {
  for (const made of [folder, model]) rmSync(made, { recursive: true, force: true });
}

async function install(npm: string): Promise<void> {
  if (existsSync(join(packages, "node_modules", npm))) return;
  mkdirSync(packages, { recursive: true });
  await run(
    "npm",
    ["install", "--prefix", packages, "--no-audit", "--no-fund", "--silent", npm],
    packages,
    process.env,
  );
}

async function tryAgent(name: string): Promise<void> {
  await using server = await startProcess(["--model", model], "ignore", ["serve"]);
  const home = join(folder, `home-${name}`);
  const cwd = join(folder, `work-${name}`);
  mkdirSync(home);
  mkdirSync(cwd);
  const nowhere = "http://127.0.0.1:9";
  const env = {
    PATH: [join(packages, "node_modules", ".bin"), process.env.PATH].join(delimiter),
    HOME: home,
    ...{ HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere, NO_PROXY: "127.0.0.1,localhost" },
  };
  const bin = join(process.cwd(), "bin", "pagoda.js");
  const args = [bin, "launch", name, "--url", server.url, "--", ...ONE_TASK[name]!];
  const version = (await run(AGENTS[name]!.command, ["--version"], cwd, env)).trim().split("\n").at(-1)!;
  let before = await tokensOf(server.url);
  for (const time of ["first", "second"] as const) {
    rmSync(join(cwd, FILE), { force: true });
    const startMs = performance.now();
    const said = await run(process.execPath, args, cwd, env);
    const seconds = (performance.now() - startMs) / 1000;
    assert.ok(existsSync(join(cwd, FILE)), `${name} did not call its tool; it said: ${said}`);
    assert.equal(readFileSync(join(cwd, FILE), "utf8").trim(), "by-agent");
    assert.ok(said.includes(DONE), `${name} did not end with the model's last words; it said: ${said}`);
    const after = await tokensOf(server.url);
    const [prompt, cached] = [after.prompt - before.prompt, after.cached - before.cached];
    before = after;
    const share = cached / prompt;
    console.log(
      `${name} ${version}, ${time} time: ${prompt} prompt tokens, ${(100 * share).toFixed(1)} % of them cached, ${seconds.toFixed(1)} s`,
    );
    if (time === "second")
      assert.ok(share >= LEAST_CACHED, `${name}: ${cached} of ${prompt} prompt tokens were cached`);
  }
}

async function tokensOf(url: string): Promise<{ prompt: number; cached: number }> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const counter = (name: string): number => {
    const found = new RegExp(`^${name}\\{[^}]*\\} (\\d+)$`, "m").exec(text);
    assert.ok(found !== null, `/metrics has no ${name}`);
    return Number(found[1]);
  };
  return { prompt: counter("pagoda_prompt_tokens_total"), cached: counter("pagoda_prefix_cache_hits_total") };
}

/** What it said, standard error included; rejects unless it ends well and in time. */
async function run(command: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: LIMIT_MS });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (piece: Buffer) => {
      said += piece.toString();
      if (isVerbose) process.stderr.write(piece);
    });
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}: ${said}`);
  return said;
}
