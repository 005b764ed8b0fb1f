import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { HubApiError } from "@huggingface/hub";
import { type HubServer, startHub } from "../../../test/support/hub-server.js";
import { fetchBlob, type HubFile } from "./hub-fetch.js";

const content = Buffer.from(Uint8Array.from({ length: 1000 }, (_, i) => i * 7));
const EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"; // git's hash of nothing
let dir: string;
let hub: HubServer;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), "pagoda-fetch-"));
  hub = await startHub({ "m.gguf": content, "empty.json": "" });
});
after(async () => {
  await hub.close();
  rmSync(dir, { recursive: true });
});

let made = 0;
/** One fetch: what it returned or threw, the blob's path, delays asked for, progress told, requests made. */
async function fetched(change: Partial<HubFile> = {}, prepare: (partial: string) => void = () => {}) {
  const etag = createHash("sha256").update(content).digest("hex");
  const file: HubFile = { path: "m.gguf", size: content.length, etag, isLfs: true, ...change };
  const blob = join(dir, `blob-${made++}`);
  prepare(`${blob}.incomplete`);
  hub.requests.length = 0;
  const delays: number[] = [];
  const progress: number[] = [];
  const origin = { hubUrl: hub.url, repo: "org/model", revision: hub.commit, fetch };
  const retryDelayMs = (attempt: number) => {
    delays.push(attempt);
    return 0;
  };
  const options = { onProgress: (bytes: number) => void progress.push(bytes), retryDelayMs, signal: undefined };
  const result = await fetchBlob(origin, file, blob, options).catch((error: unknown) => error);
  return { result, blob, delays, progress, numRequests: hub.requests.length };
}

test("a file comes whole, continues what is there, or is there already", async () => {
  const whole = await fetched();
  assert.equal(whole.result, 1000);
  assert.deepEqual(readFileSync(whole.blob), content);
  assert.equal(whole.progress.at(-1), 1000);
  assert.deepEqual(whole.delays, []);

  for (const have of [1, 999]) {
    const rest = await fetched({}, (partial) => writeFileSync(partial, content.subarray(0, have)));
    assert.equal(rest.result, 1000 - have);
    assert.deepEqual(readFileSync(rest.blob), content);
    assert.ok(rest.progress[0]! > have);
    assert.ok(hub.requests.at(-1)!.endsWith(`bytes=${have}-999`));
  }

  const all = await fetched({}, (partial) => writeFileSync(partial, content));
  assert.deepEqual([all.result, all.numRequests, all.progress], [0, 0, []]);
  assert.deepEqual(readFileSync(all.blob), content);

  // More than there can be is of another file.
  const more = await fetched({}, (partial) => writeFileSync(partial, Buffer.alloc(1001)));
  assert.equal(more.result, 1000);
  assert.deepEqual(readFileSync(more.blob), content);

  const nothing = await fetched({ path: "empty.json", size: 0, etag: EMPTY, isLfs: false });
  assert.deepEqual([nothing.result, nothing.numRequests], [0, 0]);
  assert.equal(readFileSync(nothing.blob).length, 0);
});

test("four tries that bring nothing; what the hub refuses is not asked for again", async () => {
  const tries = async (status: number) => {
    hub.faults.status = status;
    const { result, delays, numRequests } = await fetched();
    delete hub.faults.status;
    assert.ok(result instanceof HubApiError && result.statusCode === status, String(result));
    return [delays, numRequests];
  };
  assert.deepEqual(await tries(500), [[1, 2, 3], 4]);
  assert.deepEqual(await tries(503), [[1, 2, 3], 4]);
  assert.deepEqual(await tries(499), [[], 1]);
  assert.deepEqual(await tries(404), [[], 1]);
});

test("tries that bring something do not count", async () => {
  hub.faults.breakAfter = { bytes: 100, times: 6 };
  const { result, blob, delays } = await fetched();
  delete hub.faults.breakAfter;
  assert.equal(result, 1000);
  assert.equal(delays.length, 6);
  assert.ok(delays.includes(0), `${delays}`); // bytes that came together with the end of their connection may be lost
  assert.deepEqual(readFileSync(blob), content);
});

test("a size or a hash that is not the list's", async () => {
  for (const size of [999, 1001]) {
    const { result, delays } = await fetched({ size });
    assert.match(String(result), new RegExp(`m.gguf has 1000 bytes on the hub where its list says ${size}`));
    assert.deepEqual(delays, [1, 2, 3]);
  }
  for (const [isLfs, kind] of [
    [true, "sha256"],
    [false, "git hash"],
  ] as const) {
    const { result, blob } = await fetched({ isLfs, etag: "0".repeat(40) });
    assert.match(String(result), new RegExp(`m.gguf: fetched file: expected ${kind} 0{40}, found [0-9a-f]{40}`));
    assert.equal(existsSync(blob), false);
    assert.deepEqual(
      readdirSync(dir).filter((name) => name.endsWith(".incomplete") && blob.includes(name.split(".")[0]!)),
      [],
    );
  }
});

test("a full disk is not tried again", { skip: existsSync("/dev/full") ? false : "no /dev/full" }, async () => {
  const { result, delays } = await fetched({}, (partial) => symlinkSync("/dev/full", partial));
  assert.equal((result as NodeJS.ErrnoException).code, "ENOSPC");
  assert.deepEqual(delays, []);
});
