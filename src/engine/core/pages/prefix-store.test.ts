// Cached prefixes on their way to a file and back, to another engine and back, without a process in between.

import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openFilesUnder } from "../../../../test/support/open-files.js";
import { outputsOf } from "../../../../test/support/outputs.js";
import { RecordedCore } from "../../../../test/support/recorded-core.js";
import { writeTinyCheckpoint } from "../../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../../config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../../../core/sampling.js";
import { type LoadedEngine, loadEngine } from "../load/load.js";
import { PageBytes } from "./page-bytes.js";
import { recordBytes } from "./page-record.js";
import { PrefixStore } from "./prefix-store.js";

const model = writeTinyCheckpoint({ layers: 1 });
const folder = mkdtempSync(join(tmpdir(), "pagoda-prefix-store-"));
after(() => rmSync(folder, { recursive: true }));
const prompt = Int32Array.from({ length: 70 }, (_, i) => (i * 7) % 250);

async function engineOf(cacheDir: string, options: Record<string, unknown> = {}) {
  const said: string[] = [];
  const write = process.stderr.write;
  process.stderr.write = ((line: string) => said.push(line) > 0) as typeof write;
  try {
    const config = engineConfig({ model, device: "reference", numPages: 20, cacheDir, ...options });
    return { ...(await loadEngine(config, () => {})), said };
  } finally {
    process.stderr.write = write;
  }
}

/** Tokens it took from the cache, and the log-probability of its answer. */
function ask({ core }: LoadedEngine, salt = ""): [number, number] {
  core.add({
    ...{ type: "add", callId: "a", kind: "generate", prompt, priority: 0, salt, arrivalMs: 0, constraint: null },
    sampling: { ...SAMPLING_DEFAULTS, temperature: 0, maxTokens: 1, logprobs: 0, seed: 0 },
  });
  while (core.hasWork) core.step();
  const [output] = outputsOf(core);
  core.checkIntegrity();
  return [output!.trace!.cachedTokens, output!.logprobs![0]!.logprob];
}

test("what one engine leaves the next takes up; a directory is made where there is none", async () => {
  const dir = join(folder, "deep", "dir");
  const first = await engineOf(dir);
  assert.deepEqual([first.said, existsSync(dir)], [[], false]);
  const [cached, logprob] = ask(first);
  assert.equal(cached, 0);
  first.store!.save();
  assert.equal(statSync(dir).mode & 0o777, 0o700);
  assert.deepEqual(
    readdirSync(dir).map((name) => /^[0-9a-f]{32}\.pages$/.test(name)),
    [true],
  );
  const second = await engineOf(dir);
  assert.deepEqual(openFilesUnder(dir), []);
  assert.equal(second.core.stats().pagesCached, 4);
  assert.deepEqual([ask(second), second.said, second.core.stats().pagesUsed], [[64, logprob], [], 0]);
  assert.equal(ask(await engineOf(dir), "another salt")[0], 0);
  const none = await engineOf(dir, { kvDtype: "f16" });
  assert.deepEqual(
    none.said.map((line) => line.replace(dir, "DIR")),
    ["pagoda: no cached prefixes of this model and setting in DIR; ignored: 1 of others\n"],
  );
  assert.equal(none.store!.load(), 0);
  writeFileSync(join(dir, "note"), "");
  const few = await engineOf(dir, { numPages: 4 });
  assert.deepEqual([few.core.stats().pagesCached, few.said], [3, []], "as many as there is room for");
  assert.equal(few.store!.load(), 0);
});

test("a damaged file is used up to the damage, and said to be", async () => {
  const dir = join(folder, "damaged");
  const first = await engineOf(dir);
  ask(first);
  first.store!.save();
  const { path } = first.store!;
  const whole = readFileSync(path);
  const damaged = Buffer.from(whole);
  damaged[whole.length - 1]! ^= 1;
  writeFileSync(path, damaged);
  const second = await engineOf(dir);
  assert.match(second.said.join(), /are ignored after 3 pages: a record's checksum is wrong\n$/);
  assert.equal(ask(second)[0], 48);
  assert.deepEqual(openFilesUnder(dir), []);
  writeFileSync(path, whole.subarray(0, 5));
  assert.match((await engineOf(dir)).said.join(), /are ignored: it is not a file of cached pages\n$/);
});

test("what cannot be written is said, and leaves nothing behind", async (t) => {
  const dir = join(folder, "blocked");
  const engine = await engineOf(dir);
  ask(engine);
  engine.store!.save();
  const said: string[] = [];
  t.mock.method(process.stderr, "write", (line: string) => said.push(line) > 0);
  rmSync(engine.store!.path);
  mkdirSync(engine.store!.path);
  engine.store!.save();
  assert.match(said.join(), /cached prefixes could not be saved to .*\.pages: /);
  assert.deepEqual(openFilesUnder(dir), []);
  engine.core.checkIntegrity();
  assert.equal(engine.core.stats().pagesUsed, 0, "nothing is held any longer");
});

test("pages are lent from a page on, up to so many bytes, and taken up once", async () => {
  const lender = await engineOf(join(folder, "none"), { cacheDir: null });
  const [, logprob] = ask(lender, "salt");
  const all = lender.exchange!.lend(prompt, "salt", 0, 1e9);
  const size = all.length / 4;
  assert.deepEqual(lender.exchange!.lend(prompt, "salt", 3, 1e9), all.subarray(3 * size));
  assert.equal(lender.exchange!.lend(prompt, "salt", 0, 2 * size).length, 2 * size);
  assert.equal(lender.exchange!.lend(prompt, "salt", 0, 2 * size - 1).length, size);
  assert.equal(lender.exchange!.lend(prompt, "other", 0, 1e9).length, 0);
  assert.equal(lender.exchange!.lend(new Int32Array(0), "", 0, 1e9).length, all.length, "no prompt: what is hottest");
  assert.equal(lender.core.stats().pagesUsed, 0);

  const taker = await engineOf(join(folder, "none"), { cacheDir: null, numPages: 7 });
  ask(taker, "fills the pool"); // what is colder makes room
  const damaged = Uint8Array.from(all);
  damaged[2 * size + 60]! ^= 1;
  assert.deepEqual(taker.exchange!.take(prompt, "salt", damaged), {
    numTaken: 2,
    reason: "a record's checksum is wrong",
  });
  assert.deepEqual(taker.exchange!.take(prompt, "salt", all), { numTaken: 2, reason: null });
  assert.deepEqual(taker.exchange!.take(prompt, "salt", all), { numTaken: 0, reason: null });
  const longer = Buffer.concat([all, Buffer.alloc(1)]);
  assert.deepEqual(taker.exchange!.take(prompt, "salt", longer), { numTaken: 0, reason: "a record is cut off" });
  assert.equal(taker.core.stats().pagesUsed, 0);
  assert.deepEqual(ask(taker, "salt"), [64, logprob]);
  const small = await engineOf(join(folder, "none"), { cacheDir: null, numPages: 3 });
  const { numTaken, reason } = small.exchange!.take(prompt, "salt", all);
  assert.deepEqual([numTaken, reason], [2, "there is no room for more, or its name is false"]);
});

test("the file has at most so many bytes of records; one that fails in the middle is given up", () => {
  const lender = new RecordedCore();
  lender.add("a", 13, { maxTokens: 1 });
  lender.drain();
  const storeOf = ({ cache, device, caches }: RecordedCore, dir: string, maxBytes: number) => {
    const said: string[] = [];
    const pages = new PageBytes(device, caches);
    const store = new PrefixStore({ cache, pages, dir, maxBytes, key: {}, log: (line) => said.push(line) });
    return { store, pages, said };
  };
  const size = recordBytes({ pageSize: 4, pageBytes: new PageBytes(lender.device, lender.caches).pageBytes }, [true], {
    media: new Int32Array(0),
  });
  for (const [maxBytes, numKept] of [
    [3 * size, 3],
    [3 * size - 1, 2],
    [size, 1],
    [size - 1, 0],
  ] as const) {
    const dir = join(folder, `limit-${maxBytes}`);
    storeOf(lender, dir, maxBytes).store.save();
    const taker = new RecordedCore();
    const { store, said } = storeOf(taker, dir, maxBytes);
    assert.deepEqual([store.load(), taker.cache.stats().pagesCached, said], [numKept, numKept, []]);
  }
  const dir = join(folder, "failing");
  const { store, pages, said } = storeOf(lender, dir, 1e9);
  pages.read = () => {
    throw new Error("the device is lost");
  };
  store.save();
  assert.match(said.join(), /could not be saved to .*: the device is lost$/);
  assert.deepEqual([readdirSync(dir), openFilesUnder(dir), lender.cache.stats().pagesUsed], [[], [], 0]);
});
