import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { withLock } from "./file-lock.js";
import { findModel, isOffline, locateModel } from "./hub.js";
import { findInCache, hubCachePath, listCache, modelNameOf, repoFolder } from "./hub-cache.js";
import { parseHubSpec } from "./hub-spec.js";

const dir = mkdtempSync(join(tmpdir(), "pagoda-hub-cache-"));
after(() => rmSync(dir, { recursive: true }));
const COMMIT = "a".repeat(40);
const OTHER = "b".repeat(40);

function put(cache: string, files: Record<string, string>): string {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(cache, name, ".."), { recursive: true });
    writeFileSync(join(cache, name), content);
  }
  return cache;
}

test("where the cache is, and names in it", () => {
  assert.equal(hubCachePath({ HF_HUB_CACHE: "/c", HF_HOME: "/h" }), "/c");
  assert.equal(hubCachePath({ HF_HUB_CACHE: "", HF_HOME: "/h", XDG_CACHE_HOME: "/x" }), join("/h", "hub"));
  assert.equal(hubCachePath({ HF_HOME: "", XDG_CACHE_HOME: "/x" }), join("/x", "huggingface", "hub"));
  assert.equal(hubCachePath({ XDG_CACHE_HOME: "" }), join(homedir(), ".cache", "huggingface", "hub"));
  assert.equal(repoFolder("/c", "org/name"), join("/c", "models--org--name"));
  assert.equal(repoFolder("/c", "gpt2"), join("/c", "models--gpt2"));
  assert.equal(modelNameOf(`/c/models--org--name/snapshots/${COMMIT}`), "org/name");
  assert.equal(modelNameOf("C:\\c\\models--gpt2\\snapshots\\main"), "gpt2");
  assert.equal(modelNameOf(`/c/models--org--name/snapshots/${COMMIT}/m.gguf`), "m.gguf");
});

test("offline in any of its spellings", () => {
  for (const value of ["1", "true", "YES", "On"]) assert.equal(isOffline({ HF_HUB_OFFLINE: value }), true, value);
  for (const value of ["0", "false", "", "2"]) assert.equal(isOffline({ HF_HUB_OFFLINE: value }), false, value);
  assert.equal(isOffline({}), false);
});

test("models of the cache by branch, commit and quantisation; those that lack a part are not there", () => {
  const org = "models--org--name";
  const cache = put(join(dir, "one"), {
    [`${org}/refs/main`]: `${COMMIT}\n`,
    [`${org}/refs/odd`]: "not a commit",
    [`${org}/snapshots/${COMMIT}/config.json`]: "{}",
    [`${org}/snapshots/${COMMIT}/model.safetensors`]: "12345",
    [`${org}/snapshots/${COMMIT}/sub/x-Q8_0.gguf`]: "123",
    [`${org}/snapshots/${OTHER}/m-F16-00001-of-00002.gguf`]: "1",
    [`${org}/snapshots/${OTHER}/odd.gguf`]: "12",
    [`${org}/snapshots/odd/config.json`]: "{}",
    "models--gpt2/snapshots/main/config.json": "{}",
    "models--gpt2/snapshots/main/model.safetensors.index.json":
      '{"weight_map":{"a":"model-00001-of-00001.safetensors"}}',
    "models--gpt2/snapshots/main/model-00001-of-00001.safetensors": "1",
    "models--empty/refs/main": COMMIT,
    "models--single/snapshots/main/odd.gguf": "1",
    "datasets--org--name/snapshots/main/config.json": "{}",
    ".locks/x": "",
  });
  const main = join(cache, org, "snapshots", COMMIT);
  const other = join(cache, org, "snapshots", OTHER);
  const old = join(cache, "models--gpt2", "snapshots", "main");
  const found: Record<string, string | null> = {
    "org/name": main,
    [`org/name@${COMMIT}`]: main,
    "org/name:Q8_0": join(main, "sub", "x-Q8_0.gguf"),
    "org/name:Q4_0": null,
    "org/name@absent": null,
    "org/name@odd": null,
    [`org/name@${OTHER}:odd`]: join(other, "odd.gguf"),
    [`org/name@${OTHER}:F16`]: null,
    gpt2: old,
    empty: null,
    single: join(cache, "models--single", "snapshots", "main", "odd.gguf"),
    "org/absent": null,
  };
  for (const [text, path] of Object.entries(found)) {
    assert.equal(findInCache(parseHubSpec(text)!, cache), path, text);
    assert.equal(findModel(text, { HF_HUB_CACHE: cache }), path, text);
  }
  assert.equal(locateModel("gpt2", { HF_HUB_CACHE: cache }), old);
  assert.throws(() => locateModel("org/absent", { HF_HUB_CACHE: cache }), /pagoda pull org\/absent/);
  assert.throws(() => locateModel("a b", { HF_HUB_CACHE: cache }), /not a model of the hub/);
  assert.deepEqual(
    listCache(cache).map(({ spec, kind, bytes, revision, path, isComplete }) => [
      ...[spec, kind, bytes, revision, path, isComplete],
    ]),
    [
      ["gpt2", "safetensors", 2 + 55 + 1, "main", old, true],
      ["org/name", "safetensors", 7, COMMIT, main, true],
      ["org/name:Q8_0", "gguf", 3, COMMIT, join(main, "sub/x-Q8_0.gguf"), true],
      [`org/name@${OTHER}:F16`, "gguf", 1, OTHER, join(other, "m-F16-00001-of-00002.gguf"), false],
      [`org/name@${OTHER}:odd.gguf`, "gguf", 2, OTHER, join(other, "odd.gguf"), true],
      ["org/name@odd", "safetensors", 2, "odd", join(cache, org, "snapshots/odd"), false],
      ["single:odd.gguf", "gguf", 1, "main", join(cache, "models--single/snapshots/main/odd.gguf"), true],
    ],
  );
  assert.deepEqual(listCache(join(dir, "absent")), []);
});

test("a lock holds the owner's id, is let go after work and after failure, and taken over from the dead alone", async () => {
  const path = join(dir, "x.lock");
  const seen = await withLock(path, async () => readFileSync(path, "utf8"));
  assert.equal(seen, String(process.pid));
  await assert.rejects(
    withLock(path, async () => {
      throw new Error("of the work");
    }),
    /of the work/,
  );
  await assert.rejects(
    withLock(join(dir, "absent", "x.lock"), async () => 1),
    /ENOENT/,
  );
  writeFileSync(path, "999999999");
  assert.equal(await withLock(path, async () => 7), 7);
  // A living owner's is waited for, and so is one whose owner has not written its id yet.
  for (const owner of [String(process.pid), "", "1"]) {
    const order: string[] = [];
    writeFileSync(path, owner);
    const waiting = withLock(path, async () => order.push("mine"), 1);
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    order.push("theirs");
    rmSync(path);
    await waiting;
    assert.deepEqual(order, ["theirs", "mine"], owner);
  }
});
