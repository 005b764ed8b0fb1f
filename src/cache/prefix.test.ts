// The longest resumable prefix, against a search through all boundaries.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { makeRequest } from "../../test/support/simulation.js";
import type { GroupOptions } from "./cache-group.js";
import { GroupPools } from "./group-pools.js";
import { NO_ENTRY } from "./page-directory.js";
import { Prefix } from "./prefix.js";
import { hashPages, openTables } from "./request-pages.js";

const P = 2;
const FULL: GroupOptions = { kind: "full", numPages: 100 };
const WINDOW: GroupOptions = { kind: "window", numPages: 100, window: 4 };
const WIDE: GroupOptions = { kind: "window", numPages: 100, window: 7 };
const STATE: GroupOptions = { kind: "state", numPages: 100 };

const worlds = fc.record({
  groups: fc.constantFrom([FULL], [WINDOW], [WIDE, STATE], [WINDOW, FULL], [FULL, WIDE, STATE], [STATE]),
  /** Which groups have each page, as bits. */
  held: fc.array(fc.nat(7), { maxLength: 12 }),
  numTokens: fc.integer({ min: 1, max: 26 }),
  from: fc.nat(4),
});

test("property: the longest prefix at which every group can resume", () => {
  fc.assert(
    fc.property(fc.array(worlds, { minLength: 1, maxLength: 3 }), (asked) => {
      const { groups } = asked[0]!;
      const pools = new GroupPools({ groups, pageSize: P, prefixCaching: true });
      const prefix = new Prefix(pools, null, P); // one for all of them: nothing of the last request may be left
      for (const [series, { held, numTokens, from: wanted }] of asked.entries()) {
        const request = makeRequest(
          `${series}`,
          Array.from({ length: numTokens }, (_, i) => 100 * series + i),
        );
        const limit = Math.floor((numTokens - 1) / P);
        const from = Math.min(wanted, limit);
        openTables(request, groups.length);
        for (const [g, group] of pools.groups.entries())
          request.tables[g]!.first = group.isState ? 0 : group.firstVisible(from * P);
        const has = (g: number, page: number): boolean => ((held[page] ?? 0) & (1 << g)) !== 0;
        const other = makeRequest("other", [...request.tokens.subarray(0, numTokens), 1, 1, 1, 1]);
        const entries = Array.from({ length: limit + 1 }, (_, page) => {
          hashPages(other, page + 1, P);
          if (!groups.some((_, g) => has(g, page))) return NO_ENTRY;
          const entry = pools.directory!.insert(other.hashes, page, other.tokens);
          for (const g of groups.keys()) if (has(g, page)) pools.directory!.setPage(entry, g, 1 + page);
          return entry;
        });

        const canResume = (end: number): boolean =>
          pools.groups.every((group, g) => {
            if (group.isState) return has(g, end - 1);
            for (let page = group.firstVisible(end * P); page < end; page++)
              if (page >= from && !has(g, page)) return false;
            return true;
          });
        let expected = from;
        for (let end = from + 1; end <= limit; end++) if (canResume(end)) expected = end;
        assert.equal(prefix.longest(request, from), expected);
        for (let page = from; page < expected; page++) assert.equal(prefix.path[page], entries[page]);
        assert.ok(request.numHashedPages <= limit, "a page that is not full yet has no identity");
      }
    }),
    { seed: 3, numRuns: 400 },
  );
});

test("a prefix of many pages is followed to its end; who reads no cache, or has none, stays where it is", () => {
  const tokens = Array.from({ length: 401 }, (_, i) => i);
  const find = (prefixCaching: boolean, promptLogprobs: number | null): number[] => {
    const pools = new GroupPools({ groups: [{ kind: "full", numPages: 300 }], pageSize: P, prefixCaching });
    const request = makeRequest("a", tokens, { promptLogprobs });
    hashPages(request, 200, P);
    for (let i = 0; prefixCaching && i < 200; i++) pools.directory!.setPage(pools.entryFor(request, i), 0, 1 + i);
    const prefix = new Prefix(pools, null, P);
    return [prefix.longest(request, 3), prefix.path[199] ?? NO_ENTRY];
  };
  assert.deepEqual(find(true, null), [200, 199]);
  assert.equal(find(true, 0)[0], 3);
  assert.equal(find(false, null)[0], 3);
});
