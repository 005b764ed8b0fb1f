// Golden numbers of the extend-attention text (A) that concern the page pool, the two caches and page counts. Page ids here are
// one higher than in the text, which does not reserve the null page (AX9).

import assert from "node:assert/strict";
import { test } from "node:test";
import { CacheManager } from "../../src/cache/cache-manager.js";
import { PagePool } from "../../src/cache/page-pool.js";
import { Batch } from "../../src/core/batch.js";
import type { Request } from "../../src/core/request.js";
import { kvLayout } from "../../src/device/kv-layout.js";
import { addRows, makeRequest, Simulation, tokensOf } from "../support/simulation.js";

function pagesOf(request: Request): number[] {
  return [...request.tables[0]!.pages.slice(0, request.tables[0]!.numPages)];
}

test("A1: a page holds all layers, 1,048,576 elements for Llama 8B, 2 MiB at fp16; acquire is all or nothing", () => {
  const layout = kvLayout({ pageSize: 16, numLayers: 32, numKvHeads: 8, keyDim: 128, valueDim: 128 });
  assert.equal(layout.page, 32 * 2 * 8 * 16 * 128);
  assert.equal(layout.page, 1_048_576);
  assert.equal(layout.page * 2, 2 * 1024 ** 2);
  const pool = new PagePool(4);
  const out = new Int32Array(4);
  assert.equal(pool.tryAcquire(out, 0, 4), false);
  assert.deepEqual([...out], [0, 0, 0, 0]);
  assert.equal(pool.numFree, 3);
  assert.equal(pool.tryAcquire(out, 0, 3), true);
});

test("A2: the page id is the row of the pool: a page's slots are id * P .. id * P + P - 1", () => {
  const batch = new Batch(16, 64);
  batch.addRow(Int32Array.from(tokensOf(0, 20)), 0, 20, Int32Array.of(5, 2), Number.POSITIVE_INFINITY);
  assert.deepEqual(
    [batch.groups[0]!.slots[0], batch.groups[0]!.slots[15], batch.groups[0]!.slots[16], batch.groups[0]!.slots[19]],
    [80, 95, 32, 35],
  );
});

test("A3: a request keeps its pages from admission through every step until it ends", () => {
  const sim = new Simulation({ idealChunk: 32, prefixCaching: false });
  const request = sim.add("r", tokensOf(1, 100), { maxTokens: 5 });
  sim.step();
  const pages = pagesOf(request);
  assert.equal(pages.length, 7, "allocated once, for the whole prompt");
  while (request.state === "running") {
    assert.deepEqual(pagesOf(request), pages);
    sim.step();
  }
  assert.deepEqual([request.tables[0]!.numPages, sim.cache.stats().pagesFree], [0, sim.cache.stats().pagesTotal]);
});

test("A4: the plain cache gives each request its own pages: {1,2,3}, {4,5,6}, {7,8}", () => {
  const cache = new CacheManager({ pageSize: 16, prefixCaching: false, groups: [{ kind: "full", numPages: 9 }] });
  const requests = [48, 48, 32].map((length, i) => makeRequest(`R${i + 1}`, tokensOf(1, length)));
  for (const request of requests) assert.ok(cache.tryAdmit(request));
  assert.deepEqual(requests.map(pagesOf), [
    [1, 2, 3],
    [4, 5, 6],
    [7, 8],
  ]);
});

test("A5: 'The cat sat' and 'The cat ran' share page 1, own pages 2 and 3; the root is the reserved page 0", () => {
  const [the, cat, sat, ran, down] = [1, 2, 3, 4, 5];
  const cache = new CacheManager({ pageSize: 2, prefixCaching: true, groups: [{ kind: "full", numPages: 10 }] });
  const requests = [
    [the, cat, sat],
    [the, cat, ran],
  ].map((prompt, i) => makeRequest(`R${i + 1}`, prompt as number[]));
  for (const request of requests) {
    assert.ok(cache.tryAdmit(request));
    request.numComputed = 3;
    cache.publish(request);
  }
  assert.deepEqual(requests.map(pagesOf), [
    [1, 2],
    [1, 3],
  ]);
  for (const request of requests) {
    request.appendToken(down!);
    request.numComputed = 4;
    cache.publish(request);
  }
  assert.deepEqual(
    cache.snapshot().nodes.map(({ pages, parent, refs }) => ({ page: pages[0], parent, refs })),
    [
      { page: 1, parent: 0, refs: 2 },
      { page: 2, parent: 1, refs: 1 },
      { page: 3, parent: 1, refs: 1 },
    ],
  );
  cache.checkIntegrity(requests);
});

test("A6: 5 tokens at 16 a page get one page, here number 42", () => {
  const cache = new CacheManager({ pageSize: 16, prefixCaching: true, groups: [{ kind: "full", numPages: 100 }] });
  assert.ok(cache.tryReserve(makeRequest("others", tokensOf(2, 16)), 41 * 16));
  const request = makeRequest("r", [1, 2, 3, 4, 5]);
  assert.ok(cache.tryAdmit(request));
  assert.deepEqual([pagesOf(request), request.numTokens], [[42], 5]);
});

test("A7: a row carries all a task record does: ids, tokens, both lengths, all pages, start, page size; the phase is derived", () => {
  const sim = new Simulation();
  const request = sim.add("R1", tokensOf(1, 250));
  sim.step();
  const step = sim.scheduler.schedule()!;
  const row = step.rows[0]!;
  const [start, queryLen] = [step.starts[0]!, step.queryLens[0]!];
  assert.equal(row, request);
  assert.deepEqual([row.id, row.sampleIndex], ["R1", 0]);
  assert.deepEqual([...row.tokens.slice(start, start + queryLen)], tokensOf(1, 250).slice(128));
  assert.deepEqual({ start, queryLen, contextLen: row.numComputed }, { start: 128, queryLen: 122, contextLen: 250 });
  assert.equal(row.tables[0]!.numPages, 16);
  assert.ok(start < row.promptLen, "prefill: it computes prompt tokens");
});

test("A10: prefill at 0 writes the first page; decodes at 16 and 17 write the second, slots 0 and 1", () => {
  const sim = new Simulation();
  const request = sim.add("r", tokensOf(1, 16), { maxTokens: 3 });
  const slots: number[][] = [];
  const batch = new Batch(16, 256);
  for (let i = 0; i < 3; i++) {
    const step = sim.scheduler.schedule()!;
    batch.clear();
    batch.addRow(
      request.tokens,
      step.starts[0]!,
      step.queryLens[0]!,
      request.tables[0]!.pages,
      Number.POSITIVE_INFINITY,
    );
    slots.push([...batch.groups[0]!.slots.slice(0, batch.numTokens)]);
    sim.scheduler.land(step);
    request.appendToken(i);
  }
  const [first, second] = pagesOf(request);
  assert.deepEqual(
    slots[0],
    Array.from({ length: 16 }, (_, i) => first! * 16 + i),
  );
  assert.deepEqual(slots.slice(1), [[second! * 16], [second! * 16 + 1]]);
});

test("A10: starts are absolute and each row's own: one step may mix [0, 16, 0]", () => {
  const sim = new Simulation({ idealChunk: 16 });
  sim.add("a", tokensOf(1, 16), { maxTokens: 2 });
  sim.step();
  sim.add("b", tokensOf(2, 40));
  sim.add("c", tokensOf(3, 40));
  const rows = sim.step();
  assert.deepEqual(
    rows.map(({ id, start }) => [id, start]),
    [
      ["a", 16],
      ["b", 0],
      ["c", 0],
    ],
  );
});

test("AX2: 250 and 300 tokens need 16 and 19 pages; 128 tokens fill 8; no page is written by two chunks", () => {
  const sim = new Simulation();
  const [r1, r2] = [sim.add("R1", tokensOf(1, 250)), sim.add("R2", tokensOf(2, 300))];
  const writers = new Map<number, string>(); // page -> the chunk that writes it
  const pagesWritten: number[] = [];
  for (let step = sim.scheduler.schedule(); step !== null; step = sim.scheduler.schedule()) {
    for (let r = 0; r < step.numRows; r++) {
      const { id } = step.rows[r]!;
      const { pages } = step.rows[r]!.tables[0]!;
      const start = step.starts[r]!;
      const last = start + step.queryLens[r]! - 1;
      const chunk = `${id}@${start}`;
      const written = new Set<number>();
      for (let pos = start; pos <= last; pos++) written.add(pages[Math.floor(pos / 16)]!);
      for (const page of written) {
        assert.ok(!writers.has(page), `page ${page} is written by ${writers.get(page)} and ${chunk}`);
        writers.set(page, chunk);
      }
      pagesWritten.push(written.size);
    }
    sim.scheduler.land(step);
  }
  assert.deepEqual([r1.tables[0]!.numPages, r2.tables[0]!.numPages], [16, 19]);
  assert.deepEqual(pagesWritten, [8, 8, 8, 8, 3], "R1C1, R2C1, R1C2, R2C2, R2C3");
});

test("AX9: page 0 is never owned, never cached and never the target of a write", () => {
  const sim = new Simulation({ pageSize: 4, pages: 20 });
  for (let i = 0; i < 6; i++) sim.add(`r${i}`, tokensOf(i, 30), { maxTokens: 10 });
  const batch = new Batch(4, 256);
  for (;;) {
    const step = sim.scheduler.schedule();
    if (step === null) break;
    batch.clear();
    addRows(batch, step);
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      sim.compute(request, step.starts[r]!, step.queryLens[r]!);
    }
    assert.ok(batch.groups[0]!.slots.slice(0, batch.numTokens).every((slot) => slot >= 4));
    sim.scheduler.land(step);
    for (const request of step.rows.slice(0, step.numRows)) {
      assert.ok(!pagesOf(request).includes(0));
      if (request.numComputed === request.numTokens) sim.appendNext(request);
    }
  }
  assert.equal(sim.finished.length, 6);
  const { groups, nodes } = sim.cache.snapshot();
  assert.equal(groups[0]!.pages[0]!.state, "null");
  assert.ok(nodes.length > 0 && nodes.every((node) => node.pages[0]! > 0));
});
