import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openFilesUnder } from "../../../../test/support/open-files.js";
import { PageFileReader, PageFileWriter } from "./page-file.js";
import { recordBytes } from "./page-record.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-page-file-"));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, "pages");
const SHAPE = { pageSize: 2, pageBytes: [3] };
const recordOf = (i: number) => ({
  ...{ hash: Int32Array.of(i, 0, 0, 0), parent: new Int32Array(4), root: 1, tokens: Int32Array.of(i, i + 1) },
  media: new Int32Array(0),
});

function write(count: number): Buffer {
  const groups = [true];
  const writer = new PageFileWriter(path, "key", SHAPE, count, count * recordBytes(SHAPE, groups, recordOf(0)));
  for (let i = 0; i < count; i++) writer.write(recordOf(i), groups, (out) => out.fill(i));
  assert.equal(existsSync(path), false, "nothing is there before it is whole");
  writer.commit();
  assert.deepEqual(readdirSync(folder), ["pages"]);
  assert.deepEqual(openFilesUnder(folder), []);
  return readFileSync(path);
}

test("records are read as they were written; a file that is given up leaves nothing", () => {
  write(3);
  const reader = new PageFileReader(path, "key", SHAPE);
  assert.equal(reader.numRecords, 3);
  for (let i = 0; i < 3; i++) {
    const { record, pageOf } = reader.next();
    assert.deepEqual([record, [...pageOf(0)]], [recordOf(i), [i, i, i]]);
  }
  assert.throws(() => reader.next(), /cut off/);
  reader.close();
  rmSync(path);
  new PageFileWriter(path, "key", SHAPE, 0, 0).abandon();
  assert.deepEqual(readdirSync(folder), []);
  assert.deepEqual(openFilesUnder(folder), []);
});

test("what is not such a file, of another key, cut off or damaged is refused by its fault", () => {
  const whole = write(2);
  const refused = (bytes: Uint8Array, message: RegExp, key = "key") => {
    writeFileSync(path, bytes);
    assert.throws(() => new PageFileReader(path, key, SHAPE), message);
    assert.deepEqual(openFilesUnder(folder), []);
  };
  const changed = (at: number, value: number) => {
    const copy = Buffer.from(whole);
    copy[at] = value;
    return copy;
  };
  refused(changed(7, 65), /not a file of cached pages/);
  refused(changed(11, 1), /not a file of cached pages/); // a header of 2 ** 24 bytes
  for (const length of [0, 5, 8, 11]) refused(whole.subarray(0, length), /not a file of cached pages/);
  refused(whole.subarray(0, 12), /header is damaged/);
  refused(changed(12, 65), /header is damaged/);
  refused(whole, /another model/, "other");
  refused(whole.subarray(0, whole.length - 1), /cut off: \d+ of \d+ bytes/);
  refused(Buffer.concat([whole, Buffer.alloc(1)]), /cut off/);
  rmSync(path);
});

test("a header may have a mebibyte, and no more", () => {
  const others = JSON.stringify({ key: "", bytes: 0, numRecords: 0 }).length;
  for (const [length, isRead] of [
    [2 ** 20, true],
    [2 ** 20 + 1, false],
  ] as const) {
    const key = "k".repeat(length - others);
    new PageFileWriter(path, key, SHAPE, 0, 0).commit();
    if (isRead) new PageFileReader(path, key, SHAPE).close();
    else assert.throws(() => new PageFileReader(path, key, SHAPE), /not a file of cached pages/);
  }
  rmSync(path);
});
