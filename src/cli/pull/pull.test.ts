// The commands as a user runs them, against a hub on this machine.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startHub } from "../../../test/support/hub-server.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { pullProgress } from "./progress.js";

function pagoda(args: readonly string[], env: Record<string, string>) {
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    const child = spawn(process.execPath, ["bin/pagoda.js", ...args], { env: { PATH: process.env.PATH, ...env } });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (data) => {
      stdout += data;
    });
    child.stderr.on("data", (data) => {
      stderr += data;
    });
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

test("pull, pull again, list; and their errors", async (t) => {
  const cache = mkdtempSync(join(tmpdir(), "pagoda-pull-"));
  const hub = await startHub({ "m-Q4_0.gguf": "four", "m-Q8_0.gguf": "eight" });
  t.after(async () => {
    await hub.close();
    rmSync(cache, { recursive: true });
  });
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache };
  assert.match((await pagoda(["list"], env)).stdout, /^No models in .*pagoda pull ORG\/NAME/);

  const first = await pagoda(["pull", "org/model:Q8_0"], env);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /1 file, 5 B, 5 B fetched\n.*m-Q8_0\.gguf\n$/);
  assert.match(first.stderr, /org\/model:Q8_0: m-Q8_0\.gguf/);
  const again = JSON.parse((await pagoda(["pull", "org/model:Q8_0", "--json"], env)).stdout);
  assert.equal(again.fetchedBytes, 0);
  assert.match((await pagoda(["list"], env)).stdout, /^org\/model:Q8_0 +gguf +5 B\n$/);
  assert.equal(JSON.parse((await pagoda(["list", "--json"], env)).stdout).models[0].path, again.path);

  const missing = await pagoda(["pull", "org/model:Q5_K"], env);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /choose one of :Q4_0 :Q8_0/);
  assert.equal((await pagoda(["pull"], env)).code, 2);
  assert.match((await pagoda(["list", "--jason"], env)).stderr, /Unknown option --jason\. Did you mean --json/);
});

test("a model that is not there yet is pulled when it is asked to answer", async (t) => {
  const cache = mkdtempSync(join(tmpdir(), "pagoda-pull-"));
  const tiny = writeTinyCheckpoint();
  const hub = await startHub(
    Object.fromEntries(readdirSync(tiny).map((name) => [name, readFileSync(join(tiny, name))])),
  );
  t.after(async () => {
    await hub.close();
    rmSync(cache, { recursive: true });
    rmSync(tiny, { recursive: true });
  });
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache };
  const args = ["generate", "hi", "--raw", "--max-tokens", "4", "--temperature", "0", "--device", "reference"];
  const local = await pagoda([...args, "--model", tiny], env);
  assert.equal(local.code, 0, local.stderr);
  const pulled = await pagoda([...args, "--model", "org/model"], env);
  assert.equal(pulled.code, 0, pulled.stderr);
  assert.equal(pulled.stdout, local.stdout);
  const offline = await pagoda([...args, "--model", "org/model"], { ...env, HF_HUB_OFFLINE: "1" });
  assert.equal(offline.stdout, local.stdout);
  const missing = await pagoda([...args, "--model", "org/other"], { ...env, HF_HUB_OFFLINE: "1" });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /org\/other: it is not in the cache .* and HF_HUB_OFFLINE is set/);
});

test("the bar shows bytes, rate and time left of what is fetched now", () => {
  let text = "";
  let time = 0;
  const write = (data: string | Uint8Array) => {
    text = String(data);
    return true;
  };
  const stream = { isTTY: true, write };
  const progress = pullProgress("m", { stream, now: () => time });
  time = 1000;
  progress.onProgress(1024, 4096, "f"); // was there already
  time = 2000;
  progress.onProgress(2048, 4096, "f");
  assert.match(text, /\[#{12}-{12}\] 2\.0 KiB of 4\.0 KiB, 512 B\/s, 4 s left {2}f$/);
  progress.done();
  assert.equal(text, "\r\x1b[K");
});
