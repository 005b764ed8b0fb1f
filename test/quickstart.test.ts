// The quickstart as a reader follows it: every block of the page is run, in a folder with a model.gguf, as it stands on the page but for its port.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { bundledGguf } from "./support/bundled-gguf.js";
import { freePort } from "./support/free-port.js";
import { startProcess } from "./support/served-process.js";
import { until } from "./support/until.js";

const run = promisify(execFile);
const page = readFileSync("docs/guide/quickstart.md", "utf8");
const folder = mkdtempSync(join(tmpdir(), "pagoda-quickstart-"));
after(() => rmSync(folder, { recursive: true }));

// What `npm install` in this folder would give, and the reader's model.
mkdirSync(join(folder, "node_modules"));
for (const name of ["zod", "express"]) symlinkSync(resolve("node_modules", name), join(folder, "node_modules", name));
symlinkSync(resolve("."), join(folder, "node_modules", "pagoda"));
writeFileSync(join(folder, "model.gguf"), bundledGguf());

/** The block of the page that has this line. */
function blockWith(language: "sh" | "ts", words: string): string {
  const blocks = [...page.matchAll(new RegExp(`\`\`\`${language}\n([^\`]*?)\`\`\``, "g"))].map(([, block]) => block!);
  const found = blocks.filter((block) => block.includes(words));
  assert.equal(found.length, 1, `blocks with ${words}`);
  return found[0]!;
}

/** The arguments of a line that begins with npx pagoda. */
function argumentsOf(line: string): string[] {
  const words = line.trim().split(" ");
  assert.deepEqual(words.splice(0, 2), ["npx", "pagoda"]);
  return words.map((word) => (word.startsWith("./") ? join(folder, word) : word));
}

function programOf(words: string, change = (text: string) => text): string {
  const path = join(folder, `${words.replaceAll(/\W/g, "")}.mjs`);
  writeFileSync(path, change(blockWith("ts", words)));
  return path;
}

test("a GGUF file is served with a key, and answers what the page calls it with", async () => {
  const args = argumentsOf(blockWith("sh", "serve ./model.gguf"));
  await using server = await startProcess(args.slice(1));
  const call = blockWith("sh", "curl").replace("http://127.0.0.1:8000", server.url);
  const { stdout } = await run("bash", ["-c", call.replace("curl", "curl -sS")]);
  const { object, choices } = JSON.parse(stdout) as { object: string; choices: { message: { content: string } }[] };
  assert.equal(object, "chat.completion");
  assert.ok(choices[0]!.message.content.length > 0);
  const keyless = await run("bash", ["-c", call.replace("curl", "curl -sS").replace(/-H "Authorization[^"]*"/, "")]);
  assert.equal((JSON.parse(keyless.stdout) as { error: { code: string } }).error.code, "invalid_api_key");
});

test("a program answers without a server", async () => {
  const { stdout } = await run(process.execPath, [programOf("process.stdout.write")], { cwd: folder });
  assert.ok(stdout.length > 20, stdout);
});

test("an Express app streams an answer", async () => {
  const port = await freePort();
  const program = programOf("app.post", (text) => text.replace("3000", String(port)));
  const child = spawn(process.execPath, [program], { cwd: folder, stdio: "ignore" });
  try {
    const ask = () =>
      fetch(`http://127.0.0.1:${port}/ask`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ question: "Tell me a story." }),
      }).catch(() => null);
    let reply: Response | null = null;
    await until(async () => {
      reply = await ask();
      return reply !== null;
    }, "the app answers");
    const { status } = reply!;
    const story = await reply!.text();
    assert.ok(status === 200 && story.length > 20, `${status}: ${story}`);
  } finally {
    child.kill("SIGKILL");
  }
});

test("a zod schema gives a value of its type", async () => {
  const { stdout } = await run(process.execPath, [programOf("z.object")], { cwd: folder });
  assert.match(stdout, /^.*\d+\n$/s);
});

test("a coding agent is started on a server of that key", async () => {
  const [serve, launch] = blockWith("sh", "launch").trim().split("\n").map(argumentsOf);
  assert.deepEqual(serve!.slice(2), ["--api-key", "secret"]);
  await using server = await startProcess([join(folder, "model.gguf"), ...serve!.slice(2)]);
  const bin = resolve("bin/pagoda.js");
  const { stdout } = await run(process.execPath, [bin, ...launch!, "--url", server.url, "--print"], { cwd: folder });
  assert.ok(stdout.includes(server.url) && stdout.includes("secret"), stdout);
});

test("doctor names the device and why", async () => {
  const { stdout } = await run(process.execPath, [resolve("bin/pagoda.js"), ...argumentsOf(blockWith("sh", "doctor"))]);
  assert.match(stdout, /^device +\S/m);
  assert.match(stdout, /^why +\S/m);
});

test("every block of the page is run by a test above, but the installation", () => {
  const known = [
    "npm install pagoda",
    "serve ./model.gguf",
    "curl",
    "process.stdout.write",
    "app.post",
    "z.object",
    "launch",
    "doctor",
  ];
  const blocks = [...page.matchAll(/```(sh|ts)\n([^`]*?)```/g)].map(([, , block]) => block!);
  assert.deepEqual(
    blocks.filter((block) => !known.some((words) => block.includes(words))),
    [],
  );
});
