import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { servedName } from "./service.js";

test("a model is served under its file's own name, or the hub id that was given", () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-names-"));
  mkdirSync(join(folder, "tiny"));
  for (const name of ["a.gguf", "big-00001-of-00002.gguf"]) writeFileSync(join(folder, name), "");
  const names = ["a.gguf", "big-00001-of-00002.gguf", "tiny"].map((name) => servedName(join(folder, name)));
  assert.deepEqual(names, ["a", "big", "tiny"]);
  assert.equal(servedName("org/none:Q4_K_M"), "org/none:Q4_K_M");
  rmSync(folder, { recursive: true });
});
