import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeRecord, encodeRecord, headBytes, recordBytes, recordLength } from "./page-record.js";

const SHAPE = { pageSize: 3, pageBytes: [5, 2, 4] };
const RECORD = {
  hash: Int32Array.of(1, -2, 3, -4),
  parent: Int32Array.of(5, 6, 7, 8),
  root: -9,
  tokens: Int32Array.of(10, 11, 12),
  media: Int32Array.of(21, 22, 23, 24, -5, 2, 1),
};
const GROUPS = [true, false, true];

const encoded = encodeRecord(SHAPE, RECORD, GROUPS, (out, g) => out.fill(g + 1));

test("a record is what its layout says: names, tokens, the pages it has, a checksum", () => {
  assert.equal(headBytes(3), 56);
  assert.equal(recordBytes(SHAPE, GROUPS, RECORD), 56 + 28 + 5 + 4 + 16);
  assert.equal(recordBytes(SHAPE, GROUPS, { media: new Int32Array(0) }), 56 + 5 + 4 + 16);
  assert.equal(encoded.length, 109);
  assert.equal(encoded.readInt32LE(4), -2);
  assert.equal(encoded.readInt32LE(16), 5);
  assert.equal(encoded.readInt32LE(32), -9);
  assert.equal(encoded.readUInt32LE(36), 0b101);
  assert.equal(encoded.readUInt32LE(40), 1);
  assert.equal(encoded.readInt32LE(52), 12);
  assert.equal(encoded.readInt32LE(72), -5);
  assert.deepEqual([...encoded.subarray(84, 93)], [1, 1, 1, 1, 1, 3, 3, 3, 3]);
  assert.equal(recordLength(SHAPE, encoded.subarray(0, 56)), 109);
});

test("it is read back as it was, whatever follows it", () => {
  const { record, groups, byteLength, pageOf } = decodeRecord(SHAPE, Buffer.concat([encoded, Buffer.alloc(9, 7)]));
  assert.deepEqual(record, RECORD);
  assert.deepEqual([groups, byteLength], [GROUPS, 109]);
  assert.deepEqual(
    [[...pageOf(0)], [...pageOf(2)]],
    [
      [1, 1, 1, 1, 1],
      [3, 3, 3, 3],
    ],
  );
});

test("a record that is cut off anywhere, or has any byte wrong, is refused", () => {
  for (let length = 0; length < encoded.length; length++)
    assert.throws(() => decodeRecord(SHAPE, encoded.subarray(0, length)), /cut off/, `${length} bytes`);
  for (let at = 0; at < encoded.length; at++) {
    const wrong = Buffer.from(encoded);
    wrong[at]! ^= 16; // of the mask: a bit that no group has
    assert.throws(() => decodeRecord(SHAPE, wrong), /checksum is wrong/, `byte ${at}`);
  }
});
