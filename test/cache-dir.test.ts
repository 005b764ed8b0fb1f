// Prefixes that outlive the process: what one leaves in cacheDir the next takes up, bit for bit; what is torn or another's is ignored
// with one line.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const model = writeTinyCheckpoint({ context: 2200 });
const NUM_SHARED = 2000;

interface Answer {
  readonly cachedTokens: number;
  readonly tokenIds: readonly number[];
  readonly logprobs: unknown;
  readonly log: string;
}

/** A process of its own that answers one prompt and leaves. */
function answer(config: Record<string, unknown>, tail: number): Answer {
  const script = `
    import { createEngine } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    const engine = await createEngine(${JSON.stringify({ numPages: 300, ...config })});
    const prompt = Array.from({ length: ${NUM_SHARED + 8} }, (_, i) => (i < ${NUM_SHARED} ? i * 7 : ${tail} + i) % 250);
    const { samples, trace } = await engine.generate(prompt, { maxTokens: 12, temperature: 1.1, seed: 3, ignoreEos: true, logprobs: 4 }).result();
    await engine.close();
    console.log(JSON.stringify({ cachedTokens: trace.cachedTokens, tokenIds: samples[0].tokenIds, logprobs: samples[0].logprobs }));
  `;
  const file = join(newDir(), "answer.mjs");
  writeFileSync(file, script);
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return { ...(JSON.parse(stdout) as Omit<Answer, "log">), log: stderr };
}

const newDir = () => mkdtempSync(join(tmpdir(), "pagoda-cache-"));

function onlyFile(dir: string): string {
  const names = readdirSync(dir);
  assert.equal(names.length, 1, names.join(", "));
  return join(dir, names[0]!);
}

function assertSame(a: Answer, b: Answer): void {
  assert.deepEqual([a.tokenIds, a.logprobs], [b.tokenIds, b.logprobs]);
}

for (const config of [{ device: "reference" }, { device: "cpu" }, { device: "cpu", kvDtype: "i8" }]) {
  test(`${Object.values(config).join(", ")}: the next process begins where the last one left off, with the same bits`, () => {
    const cacheDir = newDir();
    const alone = answer({ model, ...config }, 1);
    const first = answer({ model, ...config, cacheDir }, 5);
    const second = answer({ model, ...config, cacheDir }, 1);
    assert.deepEqual([alone.cachedTokens, first.cachedTokens, second.cachedTokens], [0, 0, NUM_SHARED]);
    assertSame(second, alone);
    assert.equal(alone.log + first.log + second.log, "");
    assert.equal(statSync(onlyFile(cacheDir)).mode & 0o777, 0o600, "prompts are nobody else's");
  });
}

const reference = { device: "reference" };

test("a file that is cut off, damaged or another model's is ignored with one line", () => {
  const cacheDir = newDir();
  const alone = answer({ model, ...reference, cacheDir }, 1);
  const path = onlyFile(cacheDir);
  const whole = readFileSync(path);
  const ignored = (reason: RegExp) => {
    const again = answer({ model, ...reference, cacheDir }, 1);
    assert.match(again.log, reason);
    assert.equal(again.log.trim().split("\n").length, 1, again.log);
    assertSame(again, alone);
    return again.cachedTokens;
  };
  truncateSync(path, whole.length >> 1);
  assert.equal(ignored(/ignored: it is cut off: \d+ of \d+ bytes/), 0);
  const damaged = Buffer.from(whole);
  damaged[damaged.length >> 1]! ^= 1;
  writeFileSync(path, damaged);
  const numCached = ignored(/ignored after \d+ pages: a record's checksum is wrong/);
  assert.ok(numCached > 0 && numCached < NUM_SHARED, `${numCached}: what came before the damage is good`);
  writeFileSync(path, "something else");
  assert.equal(ignored(/ignored: it is not a file of cached pages/), 0);

  const other = writeTinyCheckpoint({ context: 2200, seed: 9 });
  const otherDir = newDir();
  answer({ model: other, ...reference, cacheDir: otherDir }, 1);
  copyFileSync(onlyFile(otherDir), path);
  assert.equal(ignored(/ignored: it holds the pages of another model/), 0);
  const stranger = answer({ model: other, ...reference, cacheDir }, 1);
  assert.equal(stranger.cachedTokens, 0);
  assert.match(stranger.log, /^pagoda: no cached prefixes of this model and setting in .*\n$/);
});

test("the file stays within cacheDiskMb, and keeps what was used last from its beginning on", () => {
  const cacheDir = newDir();
  const deep = writeTinyCheckpoint({ context: 2200, layers: 6 }); // its pages take 1.5 MB
  const config = { model: deep, ...reference, cacheDir, cacheDiskMb: 1 };
  answer(config, 1);
  assert.ok(statSync(onlyFile(cacheDir)).size <= 2 ** 20);
  const { cachedTokens } = answer(config, 1);
  assert.ok(cachedTokens > 0 && cachedTokens < NUM_SHARED, `${cachedTokens}`);
});
