import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openFilesUnder } from "../../../../test/support/open-files.js";
import { fileTensor, madeTensor, TensorTable } from "../../../formats/tensor-views.js";
import { fingerprintOf } from "./fingerprint.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-fingerprint-"));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, "weights");
const BYTES = 4096;
const OFFSET = 8;

/** Of a large and a small tensor in one file, with one byte changed; -1: none. */
function printed(changed = -1, { config = {}, shape = [32, 32], names = ["a", "b"] } = {}): string {
  const bytes = Buffer.alloc(OFFSET + BYTES + 40);
  if (changed >= 0) bytes[changed] = 1;
  writeFileSync(path, bytes);
  const tensors = [
    fileTensor("a", "f32", shape, path, OFFSET),
    fileTensor("odd", "u8", [1027], path, OFFSET),
    fileTensor("b", "f32", [10], path, OFFSET + BYTES),
    madeTensor("made", "f32", [1], () => Buffer.alloc(4)),
  ];
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const table = new TensorTable(path);
  for (const name of [...names, "made"]) table.add(byName.get(name)!);
  return fingerprintOf(config, table);
}

test("config, names, shapes and a kilobyte from the middle of each tensor tell models apart", () => {
  const own = printed();
  assert.equal(printed(), own);
  assert.deepEqual(openFilesUnder(folder), []);
  const odd = { names: ["odd"] };
  const [none, before, first_, last, after_] = [-1, 0, 1, 1024, 1025].map((at) =>
    printed(at < 0 ? at : OFFSET + at, odd),
  );
  assert.deepEqual([before === none, first_ === none, last === none, after_ === none], [true, false, false, true]);
  assert.equal(printed(-1, { names: ["b", "a"] }), own, "in whatever order they are listed");
  assert.notEqual(printed(-1, { config: { layers: 2 } }), own);
  assert.notEqual(printed(-1, { shape: [16, 64] }), own);
  assert.notEqual(printed(-1, { names: ["a"] }), own);
  const first = OFFSET + (BYTES - 1024) / 2;
  for (const at of [first, first + 1023, OFFSET + BYTES, OFFSET + BYTES + 39])
    assert.notEqual(printed(at), own, `${at}`);
  for (const at of [0, OFFSET, first - 1, first + 1024]) assert.equal(printed(at), own, `${at}`);
});
