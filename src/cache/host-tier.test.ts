// The second tier by itself, and under a cache whose pages are too few: what comes back, what is dropped, what is left behind.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, Simulation, tokensOf } from "../../test/support/simulation.js";
import { HostTier, type PageMemory } from "./host-tier.js";
import { HASH_WORDS, hashPage, hashSalt } from "./page-hash.js";

/** One group of pages of four bytes, each full of its page's number; the host has `hostBytes`. */
class Memory implements PageMemory {
  readonly pageBytes = [4];
  readonly numPages = [100];
  readonly written: [number, number][] = [];
  readonly #hostBytes: number;
  numReads = 0;

  constructor(hostBytes = 1000) {
    this.#hostBytes = hostBytes;
  }

  allocHost(bytes: number): Uint8Array {
    if (bytes > this.#hostBytes) throw new Error("the host has no more");
    return new Uint8Array(bytes);
  }

  save(out: Uint8Array, _group: number, page: number): void {
    this.numReads++;
    if (page === 99) throw new Error("it cannot be read");
    out.fill(page);
  }

  load(_group: number, page: number, bytes: Uint8Array): void {
    this.written.push([page, bytes[0]!]);
  }
}

/** The identities of a sequence in pages of two tokens, and the records of its pages. */
function pagesOf(tokens: number[]) {
  const words = Int32Array.from(tokens);
  const hashes = new Int32Array((1 + tokens.length / 2) * HASH_WORDS);
  hashSalt(hashes, 0, "");
  const records = Array.from({ length: tokens.length / 2 }, (_, i) => {
    hashPage(hashes, (i + 1) * HASH_WORDS, hashes, i * HASH_WORDS, words, i * 2, 2);
    const at = (page: number) => hashes.slice(page * HASH_WORDS, (page + 1) * HASH_WORDS);
    return { hash: at(i + 1), parent: at(i), tokens: words.slice(i * 2, i * 2 + 2) };
  });
  return { words, hashes, records };
}

test("a full tier drops what was used least recently, and reads nothing twice", () => {
  const memory = new Memory();
  const tier = new HostTier(12, memory);
  const { words, hashes, records } = pagesOf([1, 2, 3, 4, 5, 6, 7, 8]);
  for (const [i, record] of records.slice(0, 3).entries()) tier.spill(record, 0, 10 + i);
  tier.spill(records[0]!, 0, 50); // its content is here already
  assert.equal(memory.numReads, 3);
  tier.spill(records[3]!, 0, 13);
  assert.equal(tier.find(hashes, 1, words), null, "the oldest is gone");
  tier.restore(tier.find(hashes, 0, words)!, 0, 7);
  assert.deepEqual(memory.written, [[7, 10]]);
  assert.deepEqual(tier.stats(), { pages: 3, bytes: 12, maxBytes: 12, spilled: 4, restored: 1 });
});

test("tokens and parent are compared; a page that cannot be read or is too large is not kept", () => {
  const tier = new HostTier(4, new Memory());
  const { words, hashes, records } = pagesOf([1, 2, 3, 4]);
  tier.spill({ ...records[0]!, tokens: Int32Array.of(1, 9) }, 0, 1);
  assert.equal(tier.find(hashes, 0, words), null);
  const other = new HostTier(4, new Memory());
  other.spill({ ...records[0]!, tokens: Int32Array.of(9, 2) }, 0, 1);
  assert.equal(other.find(hashes, 0, words), null);
  tier.spill({ ...records[1]!, parent: new Int32Array(HASH_WORDS) }, 0, 1);
  assert.equal(tier.find(hashes, 1, words), null);
  tier.spill(records[0]!, 0, 99);
  assert.equal(tier.find(hashes, 0, words), null);
  for (const small of [new HostTier(3, new Memory()), new HostTier(400, new Memory(3))]) {
    small.spill(records[0]!, 0, 1);
    assert.deepEqual([small.stats().pages, small.stats().bytes], [0, 0]);
  }
});

test("a place whose page could not be read is used for the next", () => {
  const tier = new HostTier(4, new Memory());
  const { words, hashes, records } = pagesOf([1, 2, 3, 4]);
  tier.spill(records[0]!, 0, 99);
  assert.equal(tier.find(hashes, 0, words), null);
  tier.spill(records[1]!, 0, 1);
  assert.ok(tier.find(hashes, 1, words) !== null);
});

test("host memory is taken in blocks of 4 MiB as it is needed, a page at least, and no more than the tier may have", () => {
  const mib = 2 ** 20;
  for (const [pageMib, maxMib, expected] of [
    [1, 10, [4, 4, 2]],
    [3, 7, [3, 3]],
    [5, 10, [5, 5]],
  ] as const) {
    const blocks: number[] = [];
    const tier = new HostTier(maxMib * mib, {
      pageBytes: [pageMib * mib],
      numPages: [100],
      allocHost: (bytes) => {
        blocks.push(bytes / mib);
        return new Uint8Array(bytes);
      },
      save: () => {},
      load: () => {},
    });
    const { records } = pagesOf(tokensOf(1, 40));
    const numPages = Math.floor(maxMib / pageMib);
    for (const [i, record] of records.entries()) {
      tier.spill(record, 0, 1);
      assert.equal(tier.stats().pages, Math.min(i + 1, numPages));
    }
    assert.deepEqual(blocks, expected);
  }
});

test("a tier that gets no memory now asks again; one that is told there is no more asks no longer", () => {
  const { records } = pagesOf(tokensOf(1, 12));
  let numAsked = 0;
  let answer: () => Uint8Array | null = () => null;
  const memory = {
    pageBytes: [2 ** 22],
    numPages: [100],
    allocHost: () => {
      numAsked++;
      return answer();
    },
    save: () => {},
    load: () => {},
  };
  const tier = new HostTier(2 ** 24, memory);
  const spilled = (i: number): number[] => {
    tier.spill(records[i]!, 0, 1);
    return [numAsked, tier.stats().pages];
  };
  assert.deepEqual(
    [spilled(0), spilled(1)],
    [
      [1, 0],
      [2, 0],
    ],
  );
  answer = () => new Uint8Array(2 ** 22);
  assert.deepEqual(
    [spilled(2), spilled(3)],
    [
      [3, 1],
      [4, 2],
    ],
  );
  answer = () => {
    throw new Error("the host has no more");
  };
  assert.deepEqual(
    [spilled(4), spilled(5)],
    [
      [5, 2],
      [5, 2],
    ],
  );
});

test("each group has its pool's share, and drops its own pages only", () => {
  const memory = Object.assign(new Memory(), { pageBytes: [4, 8], numPages: [30, 15] });
  const tier = new HostTier(24, memory); // three pages and, as large together, one and a half
  const { words, hashes, records } = pagesOf([1, 2, 3, 4, 5, 6]);
  for (const [i, record] of records.entries()) for (const group of [0, 1]) tier.spill(record, group, 10 + i);
  assert.deepEqual(
    records.map((_, i) => tier.find(hashes, i, words)?.pages.map((page) => page?.[0] ?? null)),
    [
      [10, null],
      [11, null],
      [12, 12],
    ],
  );
  assert.deepEqual([tier.stats().pages, tier.stats().bytes], [4, 20]);
});

test("what was touched stays longest in every group that has it, and in no other", () => {
  const memory = Object.assign(new Memory(), { pageBytes: [4, 4], numPages: [10, 10] });
  const tier = new HostTier(16, memory); // two pages of each group
  const { words, hashes, records } = pagesOf([1, 2, 3, 4, 5, 6]);
  for (const i of [0, 1]) tier.spill(records[i]!, 1, 10 + i);
  tier.touch(tier.find(hashes, 0, words)!);
  tier.spill(records[2]!, 1, 12);
  assert.deepEqual(
    records.map((_, i) => tier.find(hashes, i, words)?.pages[1]?.[0]),
    [10, undefined, 12],
  );
});

const FULL = { kind: "full", numPages: 13 } as const;
const MODELS = [
  { name: "full attention", groups: [FULL] },
  { name: "a window beside it", groups: [FULL, { kind: "window", numPages: 13, window: 6 }] },
  { name: "a state beside it", groups: [FULL, { kind: "state", numPages: 6 }] },
] as const;

for (const { name, groups } of MODELS) {
  test(`${name}: an evicted prefix comes back from the tier and is not computed again`, () => {
    const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 8, idealChunk: 8, groups, hostBytes: 2000 });
    const prompt = tokensOf(1, 33);
    const serve = (id: string, tokens: number[]) => {
      const request = sim.add(id, tokens, { maxTokens: 2 });
      sim.runAll();
      sim.checkIntegrity();
      return request;
    };
    const first = serve("first", prompt);
    serve("other", tokensOf(2, 45)); // takes every page of the pool
    const asks = makeRequest("asks", prompt);
    assert.equal(sim.cache.attach(asks), 0, "the first one's pages are gone");
    sim.cache.release(asks);
    const again = serve("again", prompt);
    assert.equal(again.numCached, 32);
    assert.deepEqual([...again.tokens.slice(33, 35)], [...first.tokens.slice(33, 35)]);
    assert.equal(sim.cache.stats().pagesUsed, 0);
    assert.ok(sim.cache.stats().hostTier!.restored >= 8);
    const small = serve("small", tokensOf(3, 13)); // takes the last pages of the prompt
    const partly = serve("partly", prompt);
    assert.deepEqual([small.numCached, partly.numCached], [0, 32]);
    assert.equal(sim.cache.stats().hitTokens, again.numCached + partly.numCached, "from the pool and from the tier");
  });
}

test("a prompt whose every position is asked for takes nothing from the tier", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 8, idealChunk: 8, groups: [FULL], hostBytes: 2000 });
  for (const [series, length] of [
    [1, 33],
    [2, 45],
  ] as const) {
    sim.add(`first ${series}`, tokensOf(series, length));
    sim.runAll();
  }
  sim.add("scored", tokensOf(1, 33), { promptLogprobs: 0 });
  assert.deepEqual(
    sim.runAll().map(([row]) => row!.start),
    [0, 8, 16, 24, 32],
  );
  assert.equal(sim.cache.stats().hostTier!.restored, 0);
});

test("what cannot be brought back is computed, and no page or slot is lost for it", (t) => {
  for (const { groups } of MODELS) {
    const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 8, idealChunk: 8, groups, hostBytes: 2000 });
    const serve = (id: string, tokens: number[]) => {
      const request = sim.add(id, tokens, { maxTokens: 2 });
      sim.runAll();
      sim.checkIntegrity();
      return request;
    };
    serve("first", tokensOf(1, 33));
    serve("other", tokensOf(2, 45));
    const broken = t.mock.method(HostTier.prototype, "restore", () => {
      throw new Error("it cannot be written");
    });
    const again = serve("again", tokensOf(1, 33));
    assert.ok(broken.mock.callCount() > 0);
    broken.mock.restore();
    assert.deepEqual([again.numCached, sim.cache.stats().pagesUsed], [0, 0]);
  }
});

test("a request that ends right after its pages came back leaves them cached, and owns nothing", () => {
  const sim = new Simulation({ pageSize: 4, maxPagesPerBatch: 8, idealChunk: 8, groups: [FULL], hostBytes: 2000 });
  sim.add("first", tokensOf(1, 33));
  sim.runAll();
  sim.add("other", tokensOf(2, 45));
  sim.runAll();
  const again = sim.add("again", tokensOf(1, 33));
  const step = sim.scheduler.schedule()!;
  assert.equal(step.starts[0], 32);
  sim.scheduler.abort(again.id);
  sim.scheduler.land(step);
  sim.checkIntegrity();
  assert.equal(sim.cache.stats().pagesUsed, 0);
  assert.equal(sim.cache.attach(makeRequest("asks", tokensOf(1, 33))), 32);
});
