// What comes back from the second tier, against a search through all boundaries: how far, which pages are written, with what.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { makeRequest } from "../../test/support/simulation.js";
import type { GroupOptions } from "./cache-group.js";
import { GroupPools } from "./group-pools.js";
import { HostTier } from "./host-tier.js";
import { HASH_WORDS } from "./page-hash.js";
import { Refill } from "./refill.js";
import { hashPages, openTables } from "./request-pages.js";
import { StateSlots } from "./state-slots.js";

const P = 2;
const FULL: GroupOptions = { kind: "full", numPages: 60 };
const WINDOW: GroupOptions = { kind: "window", numPages: 60, window: 4 };
const STATE: GroupOptions = { kind: "state", numPages: 60 };

const worlds = fc.record({
  groups: fc.constantFrom([FULL], [WINDOW, FULL], [FULL, STATE], [FULL, WINDOW, STATE], [STATE]),
  /** Where the groups have each page: bits for the directory, then bits for the tier. */
  held: fc.array(fc.tuple(fc.nat(7), fc.nat(7)), { maxLength: 8 }),
  numTokens: fc.integer({ min: 1, max: 18 }),
  from: fc.nat(3),
  /** Pages that the request has in each group beyond `from`. */
  more: fc.array(fc.nat(8), { minLength: 3, maxLength: 3 }),
});

test("property: pages come back as far as tier and directory have them, and those the directory has are not written", () => {
  fc.assert(
    fc.property(worlds, ({ groups, held, numTokens, from: wanted, more }) => {
      const loads: string[] = [];
      const contents = new Map<number, number>(); // of the page being saved
      const tier = new HostTier(20 * groups.length, {
        pageBytes: groups.map(() => 1),
        numPages: groups.map(() => 60),
        allocHost: (bytes) => new Uint8Array(bytes),
        save: (out, group, page) => out.fill(contents.get(100 * group + page)!),
        load: (group, page, bytes) => loads.push(`${group}: ${page} <- ${bytes[0]}`),
      });
      const pools = new GroupPools({ groups, pageSize: P, prefixCaching: true });
      const states = pools.stateIndex < 0 ? null : new StateSlots(pools, P);
      const request = makeRequest(
        "a",
        Array.from({ length: numTokens }, (_, i) => i),
      );
      const limit = Math.floor((numTokens - 1) / P);
      const from = Math.min(wanted, limit);
      const inDirectory = (g: number, page: number): boolean => ((held[page]?.[0] ?? 0) & (1 << g)) !== 0;
      const inTier = (g: number, page: number): boolean => ((held[page]?.[1] ?? 0) & (1 << g)) !== 0;

      const other = makeRequest("other", [...request.tokens.subarray(0, numTokens), 1, 1, 1, 1]);
      hashPages(other, limit + 1, P);
      const taken = new Int32Array(1);
      for (let page = 0; page <= limit; page++) {
        const at = (index: number) => other.hashes.slice(index * HASH_WORDS, (index + 1) * HASH_WORDS);
        const record = { hash: at(page + 1), parent: at(page), tokens: other.tokens.slice(page * P, (page + 1) * P) };
        for (const g of groups.keys()) {
          if (inDirectory(g, page)) {
            pools.tryTake(g, taken, 0, 1);
            pools.publish(g, pools.entryFor(other, page), taken[0]!);
          }
          contents.set(100 * g + page, 10 * (g + 1) + page);
          if (inTier(g, page)) tier.spill(record, g, page);
        }
      }
      openTables(request, groups.length);
      for (const [g, table] of request.tables.entries()) {
        table.numPages = g === pools.stateIndex ? 1 : from + more[g]!;
        pools.tryTake(g, table.pages, 0, table.numPages);
      }

      const isPaged = (g: number): boolean => g !== pools.stateIndex;
      const isHere = (g: number, page: number): boolean => inDirectory(g, page) || inTier(g, page);
      let expected = from;
      for (let end = from + 1; end <= limit; end++) {
        const hasPages = groups.every((_, g) => !isPaged(g) || (isHere(g, end - 1) && end <= from + more[g]!));
        if (!hasPages) break;
        if (pools.stateIndex < 0 || isHere(pools.stateIndex, end - 1)) expected = end;
      }
      const published: number[] = [];
      assert.equal(
        new Refill(pools, tier, states, P).fill(request, from, (r) => published.push(r.numComputed)),
        expected,
      );
      assert.ok(request.numHashedPages <= limit, "a page that is not full yet has no identity");
      assert.deepEqual(published, expected === from ? [] : [expected * P]);

      const expectedLoads: string[] = [];
      for (let page = from; page < expected; page++)
        for (const [g, table] of request.tables.entries())
          if (isPaged(g) && !inDirectory(g, page))
            expectedLoads.push(`${g}: ${table.pages[page]} <- ${10 * (g + 1) + page}`);
      const g = pools.stateIndex;
      if (states !== null && expected > from) {
        const slot = pools.directory!.pageOf(pools.entryFor(other, expected - 1), g);
        if (!inDirectory(g, expected - 1)) expectedLoads.unshift(`${g}: ${slot} <- ${10 * (g + 1) + expected - 1}`);
        const { before } = states;
        assert.deepEqual([before.count, before.from[0], before.to[0]], [1, slot, request.tables[g]!.pages[0]]);
      }
      assert.deepEqual(loads, expectedLoads);
    }),
    { seed: 4, numRuns: 500 },
  );
});

test("what is brought back was of use: the tier drops others first, and the beginning of the prefix last", () => {
  const tier = new HostTier(4, {
    pageBytes: [1],
    numPages: [60],
    allocHost: (bytes) => new Uint8Array(bytes),
    save: () => {},
    load: () => {},
  });
  const pools = new GroupPools({ groups: [FULL], pageSize: P, prefixCaching: true });
  const spill = (tokens: number[], pages: number[]) => {
    const request = makeRequest("spilled", tokens);
    hashPages(request, tokens.length / P, P);
    const at = (index: number) => request.hashes.slice(index * HASH_WORDS, (index + 1) * HASH_WORDS);
    for (const page of pages) {
      const record = { hash: at(page + 1), parent: at(page), tokens: request.tokens.slice(page * P, (page + 1) * P) };
      tier.spill(record, 0, 1);
    }
    return (page: number): boolean => tier.find(request.hashes, page, request.tokens) !== null;
  };
  const hasPrefix = spill([1, 2, 3, 4, 5, 6], [2, 1, 0]);
  const hasOther = spill([7, 8], [0]);
  const request = makeRequest("a", [1, 2, 3, 4, 5, 6, 7]);
  pools.tryTake(0, request.tables[0]!.pages, 0, 4);
  request.tables[0]!.numPages = 4;
  assert.equal(
    new Refill(pools, tier, null, P).fill(request, 0, () => {}),
    3,
  );
  const held = () => [hasOther(0), hasPrefix(2), hasPrefix(1), hasPrefix(0)];
  const seen = [9, 10, 11, 12].map((token) => {
    spill([token, 0], [0]);
    return held();
  });
  assert.deepEqual(seen, [
    [false, true, true, true],
    [false, false, true, true],
    [false, false, false, true],
    [false, false, false, false],
  ]);
});
