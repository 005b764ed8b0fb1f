import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PagePool } from "./page-pool.js";

function acquire(pool: PagePool, count: number): number[] | null {
  const out = new Int32Array(count);
  return pool.tryAcquire(out, 0, count) ? [...out] : null;
}

test("a new pool hands out its pages in order and never the null page", () => {
  const pool = new PagePool(5);
  assert.equal(pool.numFree, 4);
  assert.deepEqual(acquire(pool, 4), [1, 2, 3, 4]);
  assert.equal(pool.numFree, 0);
});

test("acquire is all or nothing", () => {
  const pool = new PagePool(5);
  assert.deepEqual(acquire(pool, 3), [1, 2, 3]);
  assert.equal(acquire(pool, 2), null);
  assert.deepEqual(pool.freeQueue(), [4]);
  assert.deepEqual(acquire(pool, 1), [4]);
});

test("acquire writes at the given offset", () => {
  const out = Int32Array.of(9, 9, 9, 9);
  assert.ok(new PagePool(5).tryAcquire(out, 1, 2));
  assert.deepEqual([...out], [9, 1, 2, 9]);
});

test("a page is free again when its last owner has gone", () => {
  const pool = new PagePool(4);
  acquire(pool, 1);
  pool.retain(1);
  pool.release(1);
  assert.deepEqual(pool.freeQueue(), [2, 3]);
  pool.release(1);
  assert.deepEqual(pool.freeQueue(), [2, 3, 1]);
});

test("a worthless page returns to the front of the queue", () => {
  const pool = new PagePool(4);
  acquire(pool, 2);
  pool.release(1);
  pool.releaseEmpty(2);
  assert.deepEqual(pool.freeQueue(), [2, 3, 1]);
});

test("retain takes a free page out of the middle", () => {
  const pool = new PagePool(5);
  pool.retain(2);
  assert.deepEqual(pool.freeQueue(), [1, 3, 4]);
});

test("releasing a page nobody owns is an error, the null page included", () => {
  const pool = new PagePool(4);
  assert.throws(() => pool.release(2), /page 2 is released but nobody owns it/);
  assert.throws(() => pool.releaseEmpty(0), /page 0/);
});

test("property: the pool behaves like a plain array of free pages and a map of counts", () => {
  const op = fc.tuple(fc.constantFrom("acquire", "retain", "release", "releaseEmpty"), fc.nat(12));
  fc.assert(
    fc.property(fc.array(op, { maxLength: 200 }), (ops) => {
      const pool = new PagePool(12);
      let free = Array.from({ length: 11 }, (_, i) => i + 1);
      const refs = new Array<number>(12).fill(0);
      for (const [name, n] of ops) {
        if (name === "acquire") {
          const expected = n <= free.length ? free.slice(0, n) : null;
          assert.deepEqual(acquire(pool, n), expected);
          for (const page of expected ?? []) refs[page] = 1;
          if (expected !== null) free = free.slice(n);
          continue;
        }
        const page = (n % 11) + 1;
        if (name === "retain") {
          pool.retain(page);
          refs[page]!++;
          free = free.filter((other) => other !== page);
        } else if (refs[page]! > 0) {
          if (name === "release") pool.release(page);
          else pool.releaseEmpty(page);
          refs[page]!--;
          if (refs[page] === 0) free = name === "release" ? [...free, page] : [page, ...free];
        }
      }
      assert.deepEqual(pool.freeQueue(), free);
      assert.equal(pool.numFree, free.length);
      for (let page = 1; page < 12; page++) assert.equal(pool.refs(page), refs[page]);
    }),
    { seed: 1, numRuns: 300 },
  );
});
