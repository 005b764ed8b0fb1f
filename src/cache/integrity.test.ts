// Every way in which the pools can be wrong is found, and named. The pools here are made by hand, as a cache manager would make them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest } from "../../test/support/simulation.js";
import type { Request } from "../core/request.js";
import type { GroupOptions } from "./cache-group.js";
import type { CacheStats } from "./cache-manager.js";
import { GroupPools } from "./group-pools.js";
import { checkIntegrity } from "./integrity.js";
import { HASH_WORDS } from "./page-hash.js";
import { PageTransfers } from "./page-transfer.js";
import { hashPages, openTables } from "./request-pages.js";

const P = 2;
const FULL: GroupOptions = { kind: "full", numPages: 12 };
const WINDOW: GroupOptions = { kind: "window", numPages: 12, window: 3 };

/** A request of 7 tokens with pages for 8, of which three are published; and two cached pages of another that has ended. */
class Books {
  readonly pools: GroupPools;
  readonly a: Request = makeRequest("a", [1, 2, 3, 4, 5, 6, 7]);
  stats: CacheStats;
  readonly transfers: PageTransfers;

  constructor(...groups: GroupOptions[]) {
    this.pools = new GroupPools({ groups, pageSize: P, prefixCaching: true });
    this.transfers = new PageTransfers(this.pools);
    this.#fill(this.a, 4);
    const ended = makeRequest("ended", [8, 9, 10, 11]);
    this.#fill(ended, 2);
    for (const [g, group] of this.pools.groups.entries())
      for (const i of [1, 0]) group.release(ended.tables[g]!.pages[i]!);
    this.stats = this.#count();
  }

  /** The directory's entry of the request's page i. */
  entry(i: number): number {
    return this.pools.directory!.find(this.a.hashes, i, this.a.tokens);
  }

  check(live: Request[] = [this.a]): void {
    checkIntegrity(this.stats, P, this.pools, live, this.transfers);
  }

  #fill(request: Request, numPages: number): void {
    const numFull = Math.floor(request.numTokens / P);
    openTables(request, this.pools.groups.length);
    hashPages(request, numFull, P);
    for (const [g, table] of request.tables.entries()) {
      this.pools.tryTake(g, table.pages, 0, numPages);
      table.numPages = numPages;
      for (let i = 0; i < numFull; i++)
        table.pages[i] = this.pools.publish(g, this.pools.entryFor(request, i), table.pages[i]!);
    }
    request.numComputed = request.numTokens;
    request.numSharedPages = numFull;
  }

  #count(): CacheStats {
    const groups = this.pools.groups.map((group) => group.stats());
    return { groups, entries: this.pools.directory!.numEntries } as unknown as CacheStats;
  }
}

test("pools in order are in order", () => {
  new Books(FULL).check();
  const { a, pools } = new Books(WINDOW);
  a.tables[0]!.first = 2; // the token at 7 sees 5 on
  for (const i of [0, 1]) {
    pools.groups[0]!.release(a.tables[0]!.pages[i]!);
    a.tables[0]!.pages[i] = 0;
  }
  const stats = { groups: pools.groups.map((group) => group.stats()), entries: 5 } as unknown as CacheStats;
  checkIntegrity(stats, P, pools, [a], new PageTransfers(pools));
});

const wrong: [string, (world: Books) => void, RegExp][] = [
  ["entries", ({ stats }) => Object.assign(stats, { entries: 6 }), /the directory has 5 entries, 6 are counted/],
  ...(["pagesFree", "pagesCached", "pagesUsed"] as const).map((name): [string, (world: Books) => void, RegExp] => [
    name,
    ({ stats }) => Object.assign(stats.groups[0]!, { [name]: 9 }),
    /free\/cached\/used are 5\/2\/4, counted/,
  ]),
  ["the null page", ({ a }) => a.tables[0]!.pages.fill(0, 3, 4), /a owns page 0, outside the pool/],
  ["a page that is not there", ({ a }) => a.tables[0]!.pages.fill(-1, 3, 4), /a: page -1 at 3 is in the directory/],
  [
    "the same page twice",
    ({ a, pools }) => {
      pools.tryTake(0, a.tables[0]!.pages, 4, 1);
      a.tables[0]!.numPages = 5;
      a.tables[0]!.pages[4] = a.tables[0]!.pages[3]!;
    },
    /a owns page 4 twice/,
  ],
  [
    "an owner too many",
    ({ a, pools }) => pools.groups[0]!.pool.retain(a.tables[0]!.pages[3]!),
    /page 4 has 1 owners, 2/,
  ],
  [
    "a queue cut short",
    (world) => queue(world, (pages) => pages.slice(1)),
    /the free queue has 6 pages, 7 are counted/,
  ],
  [
    "a page queued twice",
    (world) => queue(world, ([one, , ...rest]) => [one!, one!, ...rest]),
    /in the free queue twice/,
  ],
  [
    "an owned page in the queue",
    (world) => queue(world, ([, ...rest]) => [1, ...rest]),
    /page 1 is both owned and free/,
  ],
  [
    "an end evicted after its parent",
    (world) => queue(world, (pages) => pages.reverse()),
    /page 6 would be evicted after/,
  ],
  [
    "a child with more owners than its parent",
    ({ pools, transfers, stats }) => {
      pools.groups[0]!.retain(6);
      Object.assign(stats.groups[0]!, pools.groups[0]!.stats());
      Object.assign(transfers, { countOwners: (owners: Int32Array) => owners[6]!++ });
    },
    /page 6 has more owners than its parent 5/,
  ],
  [
    "an entry that has another page",
    (world) => world.pools.directory!.setPage(world.entry(1), 0, 9),
    /entry 1 does not know its page 2 of group 0/,
  ],
  [
    "an entry without its page",
    ({ pools, stats }) => {
      pools.groups[0]!.evict(6);
      pools.directory!.setPage(4, 0, 0);
      Object.assign(stats.groups[0]!, pools.groups[0]!.stats());
    },
    /entry 4 has lost its page of group 0/,
  ],
  [
    "an entry whose page is another's",
    ({ pools }) =>
      pools.directory!.setPage(pools.directory!.insert(new Int32Array(8).fill(7), 0, new Int32Array(2)), 0, 3),
    /page 3 of entry 5 is another's/,
  ],
  ["an entry that has lost its parent", (world) => orphan(world), /entry 5 has lost its parent/],
  ["more computed than there is", ({ a }) => (a.numComputed = 8), /a computed 8 of 7 tokens/],
  ["more shared than computed", ({ a }) => (a.numComputed = 5), /a shares pages it has not computed/],
  ["too few pages", ({ a }) => (a.tables[0]!.numPages = 3), /a has 3 pages for 7 tokens/],
  ["a window past its pages", ({ a }) => (a.tables[0]!.first = 5), /a lacks pages before 5/],
  ["pages lost too early", ({ a }) => (a.tables[0]!.first = 1), /a has lost pages it still sees/],
  ["a shared page left out", ({ a }) => (a.numSharedPages = 2), /a: page 3 at 2 is in the directory/],
  ["another first token", ({ a }) => (a.tokens[2] = 50), /a: page 2 holds other tokens/],
  ["another last token", ({ a }) => (a.tokens[3] = 50), /a: page 2 holds other tokens/],
  ["another identity", ({ a }) => a.hashes[4 * HASH_WORDS - 1]!--, /a: page 3 has another identity/],
  ["another root", ({ a }) => a.hashes[0]!--, /a: page 1 has another parent/],
];

for (const [what, spoil, message] of wrong) {
  test(`found: ${what}`, () => {
    const world = new Books(FULL);
    spoil(world);
    assert.throws(() => world.check(), message);
  });
}

test("found in a window: a page behind it, and states where there is one each", () => {
  const window = new Books(WINDOW);
  window.a.tables[0]!.first = 2;
  assert.throws(() => window.check(), /a: page 0 is behind the window/);
  const state = new Books({ kind: "state", numPages: 12 });
  assert.throws(() => state.check(), /a has 4 states/);
  state.a.tables[0]!.numPages = 0;
  assert.throws(() => state.check(), /a has 0 states/);
  Object.assign(state.a, { numComputed: 0, numSharedPages: 0 });
  state.a.tables[0]!.numPages = 2;
  assert.throws(() => state.check(), /a has 2 states/);
  state.a.tables[0]!.numPages = 1;
  state.a.tables[0]!.pages[0] = 12;
  assert.throws(() => state.check(), /a owns page 12, outside the pool/);
});

test("found where groups need not have every page: entries with none, with another's, and that hide one another", () => {
  /** The group's page of the last entry, which nobody owns, is lost. */
  const lose = ({ pools, stats }: Books, g: number): void => {
    pools.groups[g]!.evict(6);
    pools.directory!.setPage(4, g, 0);
    Object.assign(stats.groups[g]!, pools.groups[g]!.stats());
  };
  const empty = new Books(WINDOW);
  lose(empty, 0);
  assert.throws(() => empty.check(), /entry 4 has no page/);

  const foreign = new Books(WINDOW, WINDOW);
  lose(foreign, 0);
  foreign.check();
  lose(foreign, 1);
  foreign.pools.directory!.setPage(4, 1, 9);
  assert.throws(() => foreign.check(), /page 9 of group 1 does not know its entry 4/);

  const hidden = new Books(WINDOW);
  const { pools, a, stats } = hidden;
  const page = new Int32Array(1);
  pools.tryTake(0, page, 0, 1);
  pools.publish(0, pools.directory!.insert(a.hashes, 0, a.tokens), page[0]!);
  pools.groups[0]!.release(page[0]!);
  Object.assign(stats, { entries: 6 });
  Object.assign(stats.groups[0]!, pools.groups[0]!.stats());
  assert.throws(() => hidden.check(), /entry 0 cannot be found/);
});

test("a request that has no tables yet hides no other's pages", () => {
  const world = new Books(FULL, WINDOW);
  world.check([makeRequest("new", [1]), world.a]);
});

function queue({ pools }: Books, change: (pages: number[]) => number[]): void {
  const { pool } = pools.groups[0]!;
  const changed = change(pool.freeQueue());
  Object.assign(pool, { freeQueue: () => changed });
}

/** An entry with a page of its own, whose parent nobody has. */
function orphan({ pools, stats }: Books): void {
  const hash = new Int32Array(3 * HASH_WORDS).fill(7);
  const entry = pools.directory!.restore(
    hash.subarray(0, HASH_WORDS),
    Int32Array.of(1, 2, 3, 4),
    99,
    Int32Array.of(1, 2),
  );
  const page = new Int32Array(1);
  pools.tryTake(0, page, 0, 1);
  pools.publish(0, entry, page[0]!);
  pools.groups[0]!.release(page[0]!);
  Object.assign(stats, { entries: 6 });
  Object.assign(stats.groups[0]!, pools.groups[0]!.stats());
}
