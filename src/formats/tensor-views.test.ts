import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openFilesUnder } from "../../test/support/open-files.js";
import { readFully } from "./read-fully.js";
import {
  elementsOf,
  entryOf,
  fileTensor,
  madeTensor,
  permuteRows,
  renamed,
  reshaped,
  sliceOuter,
  TensorTable,
} from "./tensor-views.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-tensor-views-"));
after(() => rmSync(folder, { recursive: true }));

const data = Uint8Array.from({ length: 40 }, (_, i) => i);
const path = join(folder, "data");
writeFileSync(path, data);

test("a range is read whole, in as many reads as it takes, and no further than the file goes", () => {
  const fd = openSync(path, "r");
  for (const maxRead of [1, 3, 10, 11, 64]) {
    const bytes = new Uint8Array(10);
    assert.equal(readFully(fd, bytes, 7, maxRead), 10);
    assert.deepEqual(bytes, data.slice(7, 17));
    assert.equal(readFully(fd, bytes, 34, maxRead), 6);
    assert.deepEqual(bytes.slice(0, 6), data.slice(34));
  }
  assert.equal(readFully(fd, new Uint8Array(0), 0), 0);
  closeSync(fd);
});

test("views of a file stay ranges of it, views of made tensors share their bytes", () => {
  const inFile = fileTensor("t", "u8", [4, 2, 3], path, 5);
  const made = madeTensor("t", "u8", [4, 2, 3], () => data.slice(5, 29));
  assert.equal(elementsOf([]), 1);
  assert.equal(elementsOf([4, 2, 3]), 24);
  for (const tensor of [inFile, made]) {
    const isFile = tensor.file !== null;
    const views = [
      { view: tensor, name: "t", shape: [4, 2, 3], from: 5, to: 29 },
      { view: renamed(tensor, "r"), name: "r", shape: [4, 2, 3], from: 5, to: 29 },
      { view: reshaped(tensor, "s", [24]), name: "s", shape: [24], from: 5, to: 29 },
      { view: sliceOuter(tensor, "o", 1, 2), name: "o", shape: [2, 2, 3], from: 11, to: 23 },
      { view: sliceOuter(tensor, "p", 0, 4), name: "p", shape: [4, 2, 3], from: 5, to: 29 },
      { view: entryOf(tensor, "e", 3), name: "e", shape: [2, 3], from: 23, to: 29 },
    ];
    for (const { view, name, shape, from, to } of views) {
      const { dtype, byteLength, file } = view;
      const expected = {
        name,
        dtype: "u8",
        shape,
        byteLength: to - from,
        file: isFile ? { path, offset: from } : null,
      };
      assert.deepEqual({ name: view.name, dtype, shape: view.shape, byteLength, file }, expected);
      assert.deepEqual(Uint8Array.from(view.bytes()), data.slice(from, to), name);
    }
    const turned = permuteRows(tensor, "w", (row) => (row + 1) % 4);
    assert.deepEqual([turned.name, turned.file, turned.shape], ["w", null, [4, 2, 3]]);
    assert.deepEqual(turned.bytes(), Uint8Array.from([...data.slice(11, 29), ...data.slice(5, 11)]));
  }
});

test("a table gives what it was given, once per name and in the shape asked for, and closes what is below it", () => {
  let closed = 0;
  const table = new TensorTable("/somewhere", () => closed++);
  const tensor = fileTensor("t", "f32", [2, 3], path, 0);
  table.add(tensor);
  assert.deepEqual(
    [table.path, [...table.names()], table.has("t"), table.has("u")],
    ["/somewhere", ["t"], true, false],
  );
  assert.equal(table.get("t"), tensor);
  assert.equal(table.get("t", [2, 3]), tensor);
  for (const shape of [[3, 2], [2], [2, 3, 1], []]) {
    assert.throws(
      () => table.get("t", shape),
      new RegExp(`expected shape \\[${shape.join(", ")}\\], found \\[2, 3\\]`),
    );
  }
  assert.throws(() => table.get("u", [7, 8]), /\/somewhere.*tensor u is missing; expected shape \[7, 8\]/);
  const made = new TensorTable("of-the-table");
  made.add(madeTensor("m", "u8", [2], () => new Uint8Array(2)));
  assert.throws(() => made.get("m", [3]), /of-the-table: tensor m: expected shape \[3\], found \[2\]/);
  assert.throws(() => made.add(made.get("m")), /of-the-table: tensor m: expected one of each name/);
  assert.throws(() => made.get("n"), /of-the-table: tensor n is missing; expected shape \[any\]/);
  assert.throws(() => table.add(renamed(tensor, "t")), /tensor t: expected one of each name, found a second one/);
  table.close();
  assert.equal(closed, 1);
});

test("a file that shrank since is told, with how far it got", () => {
  const shrinking = join(folder, "shrinking");
  writeFileSync(shrinking, data);
  const tensor = fileTensor("t", "u8", [8], shrinking, 30);
  assert.deepEqual(tensor.bytes(), data.slice(30, 38));
  truncateSync(shrinking, 35);
  assert.throws(() => tensor.bytes(), /tensor t: expected 8 bytes, found 5; the file has shrunk/);
  assert.deepEqual(openFilesUnder(folder), [], "each read closes its file, one that fails too");
});
