import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { type HubServer, startHub } from "../../../test/support/hub-server.js";
import { PagodaError } from "../../core/errors.js";
import { findModel, resolveModel } from "./hub.js";
import { listCache, modelNameOf } from "./hub-cache.js";
import { pull } from "./hub-pull.js";
import { hubToken } from "./hub-token.js";

const weights = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) ^ (i >> 8)));
const FOLDER = {
  "config.json": "{}",
  "tokenizer.json": '{"a":1}',
  "chat_template.jinja": "hello",
  "model.safetensors": weights,
  "pytorch_model.bin": "no",
  "original/model.safetensors": "no",
  "README.md": "no",
  "empty.jinja": "",
};
const GGUFS = {
  "README.md": "no",
  "m-Q4_K_M.gguf": "four",
  "m-Q8_0.gguf": weights,
  "m-F16-00001-of-00002.gguf": "one",
  "m-F16-00002-of-00002.gguf": "two",
  "mmproj-F16.gguf": "eyes",
};

let cache: string;
let hub: HubServer;
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), "pagoda-hub-"));
});
afterEach(async () => {
  await hub?.close();
  rmSync(cache, { recursive: true });
});

const environment = (more: Record<string, string> = {}) => ({ HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache, ...more });
const options = (more: Record<string, string> = {}) => ({ env: environment(more), retryDelayMs: () => 1 });
const fails = async (promise: Promise<unknown>, code: string, pattern: RegExp) => {
  await assert.rejects(promise, (error: unknown) => {
    assert.ok(error instanceof PagodaError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    return true;
  });
};

test("a folder: the files an engine needs, in the layout that other tools share", async () => {
  hub = await startHub(FOLDER);
  const seen: number[] = [];
  const pulled = await pull("org/model", { ...options(), onProgress: (done, total) => seen.push(done / total) });
  const snapshot = join(cache, "models--org--model", "snapshots", hub.commit);
  assert.equal(pulled.path, snapshot);
  const expected = ["chat_template.jinja", "config.json", "empty.jinja", "model.safetensors", "tokenizer.json"];
  assert.deepEqual(readdirSync(snapshot).sort(), expected);
  assert.deepEqual(readFileSync(join(snapshot, "model.safetensors")), weights);
  assert.equal(readFileSync(join(cache, "models--org--model/refs/main"), "utf8"), hub.commit);
  assert.ok(lstatSync(join(snapshot, "model.safetensors")).isSymbolicLink());
  const sha256 = createHash("sha256").update(weights).digest("hex");
  assert.equal(readlinkSync(join(snapshot, "model.safetensors")), join("..", "..", "blobs", sha256));
  assert.equal(seen.at(-1), 1);
  assert.ok(seen.every((share, i) => i === 0 || share >= seen[i - 1]!));

  // Again: nothing is fetched. Offline: found.
  hub.requests.length = 0;
  assert.equal((await pull("org/model", options())).fetchedBytes, 0);
  assert.ok(hub.requests.every((request) => request.includes("/api/")));
  assert.equal(await resolveModel("org/model", { ...options({ HF_HUB_OFFLINE: "1" }) }), snapshot);
  assert.equal(modelNameOf(snapshot), "org/model");
  assert.equal(modelNameOf("/some/folder"), "folder");
  const [listed] = listCache(cache);
  assert.equal(listed?.spec, "org/model");
  assert.equal(listed.isComplete, true);
  assert.equal(listed.bytes, pulled.totalBytes);
});

test("a quantisation, a file, and all parts of a split file", async () => {
  hub = await startHub(GGUFS);
  const snapshot = join(cache, "models--org--model", "snapshots", hub.commit);
  assert.equal((await pull("org/model", options())).path, join(snapshot, "m-Q4_K_M.gguf"));
  assert.equal((await pull("org/model:q8_0", options())).path, join(snapshot, "m-Q8_0.gguf"));
  assert.deepEqual(readdirSync(snapshot).sort(), ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf"]);
  assert.equal((await pull("org/model:m-Q8_0.gguf", options())).fetchedBytes, 0);
  const split = await pull("org/model:F16", options());
  assert.equal(split.path, join(snapshot, "m-F16-00001-of-00002.gguf"));
  assert.equal(split.files.length, 3, "with its eyes");
  assert.deepEqual(
    listCache(cache).map(({ spec }) => spec),
    ["org/model:F16", "org/model:Q4_K_M", "org/model:Q8_0"],
  );
  assert.equal(findModel("org/model:Q8_0", environment()), join(snapshot, "m-Q8_0.gguf"));
  await fails(pull("org/model:Q2_K", options()), "model_not_found", /choose one of :F16 :Q4_K_M :Q8_0/);
  hub.files.delete("m-Q4_K_M.gguf");
  rmSync(join(cache, "models--org--model"), { recursive: true });
  await fails(pull("org/model", options()), "model_not_found", /choose one of :F16 :Q8_0/);
  rmSync(join(cache, "models--org--model"), { recursive: true, force: true });
  hub.files.clear();
  await fails(pull("org/model", options()), "model_not_found", /neither safetensors nor GGUF/);
});

test("a broken connection is continued where it broke", async () => {
  hub = await startHub(GGUFS);
  hub.faults.breakAfter = { bytes: 100_000, times: 2 };
  const pulled = await pull("org/model:Q8_0", options());
  assert.deepEqual(readFileSync(pulled.path), weights);
  const ranges = hub.requests.filter((r) => r.includes("resolve") && r.includes("bytes=") && !r.includes("bytes=0-0"));
  assert.equal(ranges.length, 2, ranges.join("; "));
  assert.ok(
    ranges.every((range) => /bytes=[1-9]\d{4,}-299999$/.test(range)),
    ranges.join("; "),
  );
});

test("a pull that was given up is continued by the next one", async () => {
  hub = await startHub(GGUFS);
  const blob = join(cache, "models--org--model/blobs", createHash("sha256").update(weights).digest("hex"));
  mkdirSync(join(cache, "models--org--model/blobs"), { recursive: true });
  writeFileSync(`${blob}.incomplete`, weights.subarray(0, 123_456));
  const pulled = await pull("org/model:Q8_0", options());
  assert.equal(pulled.fetchedBytes, 300_000 - 123_456 + "eyes".length);
  assert.ok(hub.requests.some((request) => request.endsWith("bytes=123456-299999")));
  assert.deepEqual(readFileSync(pulled.path), weights);
  assert.ok(!existsSync(`${blob}.incomplete`));
});

test("two pulls at once fetch a file once; a lock that a dead process left is taken over", async () => {
  hub = await startHub(GGUFS);
  const blobs = join(cache, "models--org--model/blobs");
  mkdirSync(blobs, { recursive: true });
  const lock = join(blobs, `${createHash("sha256").update(weights).digest("hex")}.lock`);
  writeFileSync(lock, "999999999");
  const results = await Promise.all([pull("org/model:Q8_0", options()), pull("org/model:Q8_0", options())]);
  assert.equal(results[0].fetchedBytes + results[1].fetchedBytes, weights.length + "eyes".length);
  assert.deepEqual(readFileSync(results[0].path), weights);
  assert.ok(!existsSync(lock));
});

test("a connection that brings nothing is given up after a few tries; what came is kept", async () => {
  hub = await startHub(GGUFS);
  hub.faults.breakAfter = { bytes: 200_000, times: 1 };
  const blobs = join(cache, "models--org--model/blobs");
  const broken = pull("org/model:Q8_0", {
    ...options(),
    onProgress: (done) => {
      if (done >= 100_000) hub.faults.status = 503;
    },
  });
  await fails(broken, "hub_unreachable", /status 503/);
  const [left] = readdirSync(blobs);
  assert.match(left!, /^[0-9a-f]{64}\.incomplete$/);
  assert.equal(findModel("org/model:Q8_0", environment()), null);
  delete hub.faults.status;
  assert.deepEqual(readFileSync((await pull("org/model:Q8_0", options())).path), weights);
});

test("wrong bytes are refused, and not kept", async () => {
  hub = await startHub({ ...FOLDER, ...GGUFS });
  hub.faults.corrupt = true;
  await fails(pull("org/model:Q8_0", options()), "file_corrupt", /m-Q8_0\.gguf.*sha256/);
  await fails(pull("org/model", options()), "file_corrupt", /git hash/);
  assert.deepEqual(readdirSync(join(cache, "models--org--model/blobs")), []);
  assert.equal(findModel("org/model", environment()), null);
  delete hub.faults.corrupt;
  assert.deepEqual(readFileSync((await pull("org/model:Q8_0", options())).path), weights);
});

test("a server that ignores ranges does not spoil what is there", async () => {
  hub = await startHub(GGUFS);
  hub.faults.breakAfter = { bytes: 100_000, times: 1 };
  hub.faults.ignoreRange = true;
  await fails(pull("org/model:Q8_0", options()), "pull_failed", /does not honour bytes=/);
});

test("private models need a token", async () => {
  hub = await startHub(FOLDER);
  hub.faults.token = "hf_secret";
  await fails(pull("org/model", options()), "hub_denied", /status 401.*HF_TOKEN/);
  await fails(pull("org/model", options({ HF_TOKEN: "hf_other" })), "hub_denied", /401/);
  await fails(
    pull("org/model", options({ HF_TOKEN: "secret" })),
    "invalid_option",
    /HF_TOKEN is set.*starts with "hf_"/,
  );
  assert.ok((await pull("org/model", options({ HF_TOKEN: "hf_secret" }))).fetchedBytes > 0);
});

test("models and revisions that are not there", async () => {
  hub = await startHub(FOLDER);
  await fails(pull("org/other", options()), "model_not_found", /has no model org\/other at main/);
  await fails(pull("org/model@v9", options()), "model_not_found", /has no model org\/model at v9/);
  assert.ok((await pull(`org/model@${hub.commit}`, options())).path.endsWith(hub.commit));
  for (const nonsense of [
    "",
    "../etc",
    "a/b/c",
    "org/model:",
    "org//model",
    "/no/such/folder",
    "folder/m.gguf",
    "no such",
    "a\0b",
  ]) {
    await fails(resolveModel(nonsense, options()), "model_not_found", /no such folder or file/);
  }
});

test("without a network: what is wrong and what to do", async () => {
  hub = await startHub(FOLDER);
  await hub.close();
  await fails(pull("org/model", options()), "hub_unreachable", /127\.0\.0\.1.*ECONNREFUSED.*HF_ENDPOINT/);
  await fails(pull("org/model", options({ HF_HUB_OFFLINE: "1" })), "model_not_found", /HF_HUB_OFFLINE is set/);
  await fails(resolveModel("org/model", { ...options(), canPull: false }), "model_not_found", /pagoda pull org\/model/);
  await fails(pull("org/model", options({ HF_ENDPOINT: "ftp://x" })), "invalid_option", /HF_ENDPOINT is ftp/);
  await fails(pull("org/model", options({ HF_ENDPOINT: "http://a b" })), "pull_failed", /URL/);
});

test("what a hub must not be able to make us do", async () => {
  hub = await startHub(FOLDER);
  const file = { type: "file", path: "config.json", size: 2, oid: "0".repeat(40) };
  for (const [change, pattern] of [
    [{ path: "../../evil.json" }, /file name/],
    [{ path: "/etc/evil.json" }, /file name/],
    [{ path: "a".repeat(1001) }, /gave a{100} as file name/],
    [{ path: "a/./b" }, /file name/],
    [{ path: "a\\..\\evil.json" }, /file name/],
    [{ oid: "../../evil" }, /hash of config\.json/],
    [{ size: -1 }, /size of config\.json/],
    [{ size: 2 ** 62 }, /size of config\.json/],
    [
      { path: "model.safetensors", lfs: { oid: "0".repeat(64), size: 2 ** 52, pointerSize: 1 } },
      /needs \d+ bytes.*are free/,
    ],
  ] as const) {
    hub.faults.tree = [file, { ...file, ...change }];
    await fails(pull("org/model", options()), "pull_failed", pattern);
  }
  hub.faults.tree = [{ ...file, path: "a".repeat(1000) }];
  await fails(pull("org/model", options()), "model_not_found", /neither safetensors nor GGUF/);
  // What is there already needs no room; what comes after it does.
  const oid = createHash("sha1").update("blob 2\0{}").digest("hex");
  mkdirSync(join(cache, "models--org--model/blobs"), { recursive: true });
  writeFileSync(join(cache, "models--org--model/blobs", oid), "{}");
  const weights = { ...file, path: "model.safetensors", lfs: { oid: "0".repeat(64), size: 2 ** 52, pointerSize: 1 } };
  hub.faults.tree = [{ ...file, oid }, weights];
  await fails(pull("org/model", options()), "pull_failed", new RegExp(`needs ${2 ** 52} bytes`));
  writeFileSync(join(cache, "models--org--model/blobs", `${"0".repeat(64)}.incomplete`), "12345");
  await fails(pull("org/model", options()), "pull_failed", new RegExp(`needs ${2 ** 52 - 5} bytes`));
});

test("a path is a path: a folder, a file, a folder with one GGUF in it", async () => {
  hub = await startHub({});
  assert.equal(findModel(cache), cache);
  writeFileSync(join(cache, "m-Q4_0.gguf"), "");
  assert.equal(findModel(join(cache, "m-Q4_0.gguf")), join(cache, "m-Q4_0.gguf"));
  assert.equal(findModel(cache), join(cache, "m-Q4_0.gguf"));
  writeFileSync(join(cache, "other.gguf"), "");
  assert.equal(findModel(cache), cache);
});

test("a half-fetched folder is not found, and listed as incomplete", async () => {
  hub = await startHub({
    "config.json": "{}",
    "model.safetensors.index.json":
      '{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}',
    "model-00001-of-00002.safetensors": "one",
    "model-00002-of-00002.safetensors": "two",
  });
  const { path } = await pull("org/model", options());
  assert.equal(findModel("org/model", environment()), path);
  rmSync(join(path, "model-00002-of-00002.safetensors"));
  assert.equal(findModel("org/model", environment()), null);
  assert.equal(listCache(cache)[0]!.isComplete, false);
  const index = join(path, "model.safetensors.index.json");
  rmSync(index);
  writeFileSync(index, "{");
  assert.equal(listCache(cache)[0]!.isComplete, false, "nobody knows what it needs");
  rmSync(index);
  symlinkSync("gone", index);
  assert.equal(listCache(cache)[0]!.isComplete, false, "a link to nothing is no file");
  rmSync(index);
  await pull("org/model", options());
  assert.equal(findModel("org/model", environment()), path);
});

test("who has logged in is asked for by name, over connections that nobody else reads; HF_TOKEN says otherwise", () => {
  writeFileSync(join(cache, "token"), "hf_kept\n");
  const home = { HF_HOME: cache };
  const tokens = [
    hubToken(home, "https://hub"),
    hubToken(home, "http://hub"),
    hubToken({ ...home, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" }, "https://hub"),
    hubToken({ HF_HOME: "/nowhere", HF_TOKEN_PATH: join(cache, "token") }, "https://hub"),
    hubToken({ ...home, HF_TOKEN: "hf_own" }, "http://hub"),
    hubToken({ HF_HOME: "/nowhere" }, "https://hub"),
  ];
  assert.deepEqual(tokens, ["hf_kept", null, null, "hf_kept", "hf_own", null]);
});

test("a pull that is aborted ends, keeps what came, and is continued by the next", async () => {
  hub = await startHub(FOLDER);
  const leave = new AbortController();
  const onProgress = () => leave.abort();
  await fails(pull("org/model", { ...options(), signal: leave.signal, onProgress }), "aborted", /./);
  await fails(pull("org/model", { ...options(), signal: AbortSignal.abort() }), "aborted", /./);
  const whole = await pull("org/model", options());
  assert.ok(whole.fetchedBytes < whole.totalBytes);
});
