// Prefixes that outlive the process: what one leaves in cacheDir the next takes up, bit for bit; what is torn or another's is ignored
// with one line.

import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createEngine, type EngineOptions } from "../src/engine/client/engine.js";
import { type Answer, answerInProcess, answerOnce } from "./support/answer-once.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const model = writeTinyCheckpoint({ context: 600 });
const NUM_SHARED = 320;

/** Prompts that share their beginning and have a tail of their own. */
const promptOf = (tail: number) =>
  Array.from({ length: NUM_SHARED + 8 }, (_, i) => (i < NUM_SHARED ? i * 7 : tail + i) % 250);
const answer = (config: EngineOptions, tail: number) => answerOnce({ numPages: 60, ...config }, promptOf(tail));

const newDir = () => mkdtempSync(join(tmpdir(), "pagoda-cache-"));

function onlyFile(dir: string): string {
  const names = readdirSync(dir);
  assert.equal(names.length, 1, names.join(", "));
  return join(dir, names[0]!);
}

function assertSame(a: Answer, b: Answer): void {
  assert.deepEqual([a.tokenIds, a.logprobs], [b.tokenIds, b.logprobs]);
}

for (const config of [{ device: "reference" }, { device: "cpu" }, { device: "cpu", kvDtype: "i8" }] as const) {
  test(`${Object.values(config).join(", ")}: the next process begins where the last one left off, with the same bits`, async () => {
    const cacheDir = newDir();
    const alone = await answer({ model, ...config }, 1);
    const first = answerInProcess({ numPages: 60, model, ...config, cacheDir }, promptOf(5));
    const second = await answer({ model, ...config, cacheDir }, 1);
    assert.deepEqual([alone.cachedTokens, first.cachedTokens, second.cachedTokens], [0, 0, NUM_SHARED]);
    assertSame(second, alone);
    assert.equal(alone.log + first.log + second.log, "");
    assert.equal(statSync(onlyFile(cacheDir)).mode & 0o777, 0o600, "prompts are nobody else's");
  });
}

const reference = { device: "reference" } as const;

test("a file that is cut off, damaged or another model's is ignored with one line", async () => {
  const cacheDir = newDir();
  const alone = await answer({ model, ...reference, cacheDir }, 1);
  const path = onlyFile(cacheDir);
  const whole = readFileSync(path);
  const ignored = async (reason: RegExp) => {
    const again = await answer({ model, ...reference, cacheDir }, 1);
    assert.match(again.log, reason);
    assert.equal(again.log.trim().split("\n").length, 1, again.log);
    assertSame(again, alone);
    return again.cachedTokens;
  };
  truncateSync(path, whole.length >> 1);
  assert.equal(await ignored(/ignored: it is cut off: \d+ of \d+ bytes/), 0);
  const damaged = Buffer.from(whole);
  damaged[damaged.length >> 1]! ^= 1;
  writeFileSync(path, damaged);
  const numCached = await ignored(/ignored after \d+ pages: a record's checksum is wrong/);
  assert.ok(numCached > 0 && numCached < NUM_SHARED, `${numCached}: what came before the damage is good`);
  writeFileSync(path, "something else");
  assert.equal(await ignored(/ignored: it is not a file of cached pages/), 0);

  const other = writeTinyCheckpoint({ context: 600, seed: 9 });
  const otherDir = newDir();
  await answer({ model: other, ...reference, cacheDir: otherDir }, 1);
  copyFileSync(onlyFile(otherDir), path);
  assert.equal(await ignored(/ignored: it holds the pages of another model/), 0);
  const stranger = await answer({ model: other, ...reference, cacheDir }, 1);
  assert.equal(stranger.cachedTokens, 0);
  assert.match(stranger.log, /^pagoda: no cached prefixes of this model and setting in .*\n$/);
});

test("a cacheDir that is no directory is refused by the option's name", async () => {
  const cacheDir = join(newDir(), "file");
  writeFileSync(cacheDir, "");
  for (const worker of [true, false]) {
    await assert.rejects(createEngine({ model, ...reference, cacheDir, worker }), {
      name: "ConfigError",
      code: "invalid_option",
      message: `Option cacheDir is ${cacheDir}; it must be a directory that can be read, or none yet (ENOTDIR).`,
    });
  }
});

test("the file stays within cacheDiskMb, and keeps what was used last from its beginning on", async () => {
  const cacheDir = newDir();
  const deep = writeTinyCheckpoint({ context: 600, layers: 36 }); // its pages take 1.5 MB
  const config = { model: deep, device: "cpu", kvDtype: "f32", cacheDir, cacheDiskMb: 1 } as const;
  await answer(config, 1);
  assert.ok(statSync(onlyFile(cacheDir)).size <= 2 ** 20);
  const { cachedTokens } = await answer(config, 1);
  assert.ok(cachedTokens > 0 && cachedTokens < NUM_SHARED, `${cachedTokens}`);
});
