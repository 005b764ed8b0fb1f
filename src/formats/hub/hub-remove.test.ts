import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { listCache } from "./hub-cache.js";
import { removeModel } from "./hub-remove.js";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";

test("a model goes with what no other model shares with it; the last one takes its repository along", (t) => {
  const cache = mkdtempSync(join(tmpdir(), "pagoda-remove-"));
  t.after(() => rmSync(cache, { recursive: true }));
  const env = { HF_HUB_CACHE: cache };
  const folder = join(cache, "models--org--model");
  const snapshot = join(folder, "snapshots", COMMIT);
  for (const path of [snapshot, join(folder, "blobs"), join(folder, "refs")]) mkdirSync(path, { recursive: true });
  writeFileSync(join(folder, "refs", "main"), COMMIT);
  const put = (name: string, blob: string) => {
    writeFileSync(join(folder, "blobs", blob), blob);
    symlinkSync(`../../blobs/${blob}`, join(snapshot, name));
  };
  put("m-Q4_0.gguf", "four");
  put("m-Q8_0.gguf", "eight");
  put("m-F16.gguf", "same");
  symlinkSync("../../blobs/same", join(snapshot, "copy-BF16.gguf"));
  const specs = () => listCache(cache).map(({ spec }) => spec);
  const blobs = () => readdirSync(join(folder, "blobs")).sort();
  assert.equal(removeModel("org/model:Q5_0", env), false);
  assert.equal(removeModel("org/other", env), false);
  assert.equal(removeModel("../blobs", env), false);
  assert.equal(removeModel("org/model:Q8_0", env), true);
  assert.equal(removeModel("org/model:Q8_0", env), false);
  assert.deepEqual(blobs(), ["four", "same"]);
  assert.equal(removeModel("org/model:F16", env), true);
  assert.deepEqual(
    [specs(), blobs()],
    [
      ["org/model:BF16", "org/model:Q4_0"],
      ["four", "same"],
    ],
  );
  assert.equal(removeModel("org/model:BF16", env), true);
  assert.deepEqual(blobs(), ["four"]);
  assert.equal(removeModel("org/model:Q4_0", env), true);
  assert.deepEqual([specs(), existsSync(folder)], [[], false]);
});
