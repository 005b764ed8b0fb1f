import assert from "node:assert/strict";
import { test } from "node:test";
import { ResponseStore } from "./response-store.js";

const tenant = (name: string) => ({ name, salt: name, isAdmin: false });
const [ANN, BOB] = [tenant("ann"), tenant("bob")];

/** Of this size as the store counts it: two bytes a character of both texts. */
const stored = (id: string, size: number) => {
  const rest = size / 2 - JSON.stringify([]).length - JSON.stringify({ id, a: "" }).length;
  return { response: { id, a: "x".repeat(rest) }, items: [], numInput: 0 };
};

function keptOf(store: ResponseStore, ids: readonly string[]): string {
  return ids.filter((id) => store.get(ANN, id) !== null || store.get(BOB, id) !== null).join(" ");
}

test("a response is its tenant's, until it is deleted", () => {
  const store = new ResponseStore();
  const one = stored("one", 100);
  store.put(ANN, one);
  assert.equal(store.get(ANN, "one"), one);
  assert.equal(store.get(BOB, "one"), null);
  assert.deepEqual(
    [store.delete(BOB, "one"), store.delete(ANN, "one"), store.delete(ANN, "one")],
    [false, true, false],
  );
  assert.equal(store.get(ANN, "one"), null);
});

test("the oldest go when there are too many, or they are too large together; one that is too large alone is not kept", () => {
  const many = new ResponseStore({ responses: 2, bytes: 1e6 });
  for (const id of ["a", "b", "c"]) many.put(ANN, stored(id, 100));
  assert.equal(keptOf(many, ["a", "b", "c"]), "b c");
  const large = new ResponseStore({ responses: 100, bytes: 1000 });
  large.put(ANN, stored("a", 1000));
  assert.equal(keptOf(large, ["a"]), "a", "as large as all may be");
  large.put(ANN, stored("b", 1002));
  assert.equal(keptOf(large, ["a", "b"]), "a");
  large.put(ANN, stored("c", 400));
  large.put(ANN, stored("d", 600));
  assert.equal(keptOf(large, ["a", "b", "c", "d"]), "c d");
  large.delete(ANN, "c");
  large.put(ANN, stored("e", 400));
  assert.equal(keptOf(large, ["c", "d", "e"]), "d e", "what was deleted takes no room");
});

test("who keeps most of both bounds together gives way first", () => {
  const store = new ResponseStore({ responses: 4, bytes: 1000 });
  store.put(BOB, stored("b1", 500));
  store.put(ANN, stored("a1", 100));
  store.put(ANN, stored("a2", 100));
  store.put(BOB, stored("b2", 100)); // bob: 0.6 of the bytes and half the places; ann: 0.2 and half
  store.put(ANN, stored("a3", 100)); // ann: 0.3 and three quarters; bob's 1.1 is more
  assert.equal(keptOf(store, ["b1", "a1", "a2", "b2", "a3"]), "a1 a2 b2 a3");

  const late = new ResponseStore({ responses: 4, bytes: 1000 });
  late.put(ANN, stored("a1", 100));
  for (const id of ["b1", "b2", "b3"]) late.put(BOB, stored(id, 200));
  late.put(ANN, stored("a2", 100));
  assert.equal(keptOf(late, ["a1", "b1", "b2", "b3", "a2"]), "a1 b2 b3 a2", "the oldest of his, not of all");

  // By size alone bob would be the larger, by number ann.
  const close = new ResponseStore({ responses: 10, bytes: 1000 });
  for (const id of ["a1", "a2", "a3"]) close.put(ANN, stored(id, 100)); // 0.6
  close.put(BOB, stored("b1", 450)); // 0.55
  close.put(ANN, stored("a4", 300));
  assert.equal(keptOf(close, ["a1", "a2", "a3", "a4", "b1"]), "a2 a3 a4 b1");
});

test("a thousand are kept", () => {
  const store = new ResponseStore();
  for (let i = 0; i <= 1000; i++) store.put(ANN, stored(`r${1000 + i}`, 100));
  assert.equal(keptOf(store, ["r1000", "r1001", "r2000"]), "r1001 r2000");
});

test("so are 64 MiB, and no more", () => {
  const store = new ResponseStore();
  store.put(ANN, stored("a", 64 * 2 ** 20));
  store.put(ANN, stored("b", 64 * 2 ** 20 + 2));
  assert.equal(keptOf(store, ["a", "b"]), "a");
});
