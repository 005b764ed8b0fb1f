// Golden numbers of the paged-attention (C) and ragged-batching (D) texts as the real cache lays them out. Page ids are one
// higher than in the texts, which have no null page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CacheManager } from "../../src/cache/cache-manager.js";
import { Batch } from "../../src/core/batch.js";
import type { Request } from "../../src/core/request.js";
import { addRows, makeRequest, Simulation, tokensOf } from "../support/simulation.js";

function pagesOf(request: Request): number[] {
  return [...request.tables[0]!.pages.slice(0, request.tables[0]!.numPages)];
}

test("C5: 30, 32 and 70 cached tokens in blocks of 32: the new tokens go to (2, 30), (1, 0) and (6, 6)", () => {
  const cache = new CacheManager({ pageSize: 32, prefixCaching: true, groups: [{ kind: "full", numPages: 9 }] });
  const [s0, s1, s2, other] = [30, 32, 70, 32].map((length, i) => makeRequest(`s${i}`, tokensOf(i, length)));
  // The order of arrivals that leads to the text's tables 2 | 0, 1 | 3, 5, 6.
  cache.tryReserve(s1!, 33);
  cache.tryReserve(s0!, 30);
  cache.tryReserve(s2!, 32);
  cache.tryReserve(other!, 32);
  cache.tryReserve(s2!, 70);
  const before = cache.available();
  for (const request of [s0!, s1!, s2!]) assert.ok(cache.tryReserve(request, request.numTokens + 1));
  assert.equal(cache.available(), before, "every new token fits a page that is there");
  assert.deepEqual([pagesOf(s0!), pagesOf(s1!), pagesOf(s2!)], [[3], [1, 2], [4, 6, 7]]);

  const batch = new Batch(32, 8);
  for (const request of [s0!, s1!, s2!]) {
    const start = request.numTokens;
    request.appendToken(7);
    batch.addRow(request.tokens, start, 1, request.tables[0]!.pages, Number.POSITIVE_INFINITY);
  }
  assert.deepEqual([...batch.groups[0]!.slots.slice(0, 3)], [3 * 32 + 30, 2 * 32 + 0, 7 * 32 + 6]);
});

test("CX2: 32 tokens fill one block of 32; the second is taken only for the 33rd", () => {
  const cache = new CacheManager({ pageSize: 32, prefixCaching: true, groups: [{ kind: "full", numPages: 9 }] });
  const request = makeRequest("s1", tokensOf(1, 32));
  assert.ok(cache.tryAdmit(request));
  assert.equal(request.tables[0]!.numPages, 1);
  request.appendToken(7);
  assert.ok(cache.tryReserve(request, 33));
  assert.equal(request.tables[0]!.numPages, 2);
});

test("CX3: a token fits while the new length is at most the block: 31 + 1 <= 32", () => {
  const cache = new CacheManager({ pageSize: 32, prefixCaching: true, groups: [{ kind: "full", numPages: 9 }] });
  const request = makeRequest("s", tokensOf(1, 31));
  assert.ok(cache.tryAdmit(request));
  assert.ok(cache.tryReserve(request, 32));
  assert.equal(request.tables[0]!.numPages, 1);
});

test("DX1: prompts of 36, 37 and 36 tokens in one step get 109 slots, none twice, unless a prefix is shared", () => {
  const sim = new Simulation();
  for (const [i, length] of [36, 37, 36].entries()) sim.add(`s${i}`, tokensOf(i, length), { maxTokens: 2 });
  assert.equal(new Set(slotsOfNextStep(sim)).size, 109);

  const shared = new Simulation();
  shared.add("first", tokensOf(1, 36), { maxTokens: 5 });
  shared.step();
  const second = shared.add("second", tokensOf(1, 37), { maxTokens: 5 });
  shared.step();
  const first = shared.scheduler.running()[Symbol.iterator]().next().value as Request;
  assert.deepEqual(pagesOf(second).slice(0, 2), pagesOf(first).slice(0, 2));
  assert.notEqual(second.tables[0]!.pages[2], first.tables[0]!.pages[2]);
});

function slotsOfNextStep(sim: Simulation): number[] {
  const step = sim.scheduler.schedule()!;
  const batch = new Batch(sim.pageSize, sim.scheduler.budget);
  addRows(batch, step);
  return [...batch.groups[0]!.slots.slice(0, batch.numTokens)];
}
