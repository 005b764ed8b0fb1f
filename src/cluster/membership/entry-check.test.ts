import assert from "node:assert/strict";
import { test } from "node:test";
import { entryOf } from "../../../test/support/told-cluster.js";
import { Seal } from "../bus/seal.js";
import { PROTOCOL } from "../bus/wire.js";
import { ENTRY, readEntry, readSaid } from "./entry-check.js";

const open = new Seal(null);
const bytesOf = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

test("an entry of another shape is none, whichever of its fields is wrong", () => {
  const entry = entryOf("a");
  assert.deepEqual(readEntry(open, bytesOf(entry)), entry);
  for (const path of [
    "id",
    "facts",
    "load",
    "state",
    "slots",
    "role",
    "leaseMs",
    "load.calls",
    "load.running",
    "facts.identity",
  ]) {
    const [outer, inner] = path.split(".") as [string, string?];
    const broken = structuredClone(entry) as unknown as Record<string, Record<string, unknown>>;
    if (inner === undefined) delete broken[outer];
    else delete broken[outer]![inner];
    assert.equal(readEntry(open, bytesOf(broken)), null, path);
  }
  for (const text of ["", "{", "null", "3", '{"kind":"replica"}'])
    assert.equal(readEntry(open, Buffer.from(text)), null);
});

test("one of another version is named; one that no member sealed is not", () => {
  const other = { kind: "replica", id: "b", version: "9", protocol: PROTOCOL + 1, leaseMs: 9, slots: "many" };
  assert.equal(readEntry(open, bytesOf(other)), null);
  assert.deepEqual(readSaid(open, bytesOf(other)), { type: "foreign", entry: other });
  assert.equal(readSaid(open, bytesOf({ ...other, protocol: PROTOCOL })), null);
  const seal = new Seal("secret");
  const sealed = seal.close(ENTRY, bytesOf(entryOf("a")));
  for (let times = 0; times < 2; times++)
    assert.equal(readEntry(new Seal("secret"), sealed)?.id, "a", "again and again");
  for (const strange of [new Seal("guess"), open]) assert.equal(readEntry(strange, sealed), null);
  assert.equal(readEntry(seal, bytesOf(entryOf("a"))), null);
});
