// How far clients can drift apart (docs/internals/scheduler.md, "Several clients"). An onlooker who sees only requests and rows says which clients a
// step left short, and compares what they got while it left both of them so.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRandom, type Random } from "../../../test/support/random.js";
import { Simulation, tokensOf } from "../../../test/support/simulation.js";
import type { Request } from "../../core/request.js";

/** Of a sum that goes on: the most by which it rose over any steps in a row. */
class Rise {
  #last = 0;
  most = 0;

  add(amount: number): void {
    this.#last = Math.max(0, this.#last + amount);
    this.most = Math.max(this.most, this.#last);
  }
}

interface Got {
  tokens: number;
  /** In rows of a page at least. What is too little for a page of those whose turn it is goes to whoever can use it. */
  inPages: number;
  /** The priority of a prompt that could have had more; null: all got what they could take. */
  shortAt: number | null;
}

class Onlooker {
  readonly sim: Simulation;
  readonly live = new Set<Request>();
  readonly #chunk: number;
  readonly #leads = new Map<string, Rise>();
  readonly #waits = new Map<string, Rise>();
  maxLead = 0;
  maxWait = 0;
  numComparisons = 0;

  constructor(sim: Simulation, chunk: number) {
    this.sim = sim;
    this.#chunk = chunk;
  }

  step(): void {
    const wanted = new Map<Request, number>();
    for (const request of this.live) {
      const { state, numTokens, numComputed, promptLen } = request;
      if (state === "finished") this.live.delete(request);
      else if (numComputed < promptLen) wanted.set(request, Math.min(this.#chunk, numTokens - numComputed));
    }
    const rows = new Map(this.sim.step().map(({ id, queryLen }) => [id, queryLen]));
    const clients = new Map<string, Got>();
    for (const [{ id, client, priority }, want] of wanted) {
      const got = clients.get(client) ?? { tokens: 0, inPages: 0, shortAt: null };
      clients.set(client, got);
      const tokens = rows.get(id) ?? 0;
      got.tokens += tokens;
      if (tokens >= this.sim.pageSize) got.inPages += tokens;
      if (tokens < want) got.shortAt = priority;
    }
    this.#compare(new Map([...clients].filter(([, { shortAt }]) => shortAt !== null)));
  }

  #compare(short: ReadonlyMap<string, Got>): void {
    const best = Math.min(...[...short.values()].map(({ shortAt }) => shortAt!));
    for (const name of this.#waits.keys()) if (!short.has(name)) this.#waits.delete(name);
    for (const name of this.#leads.keys())
      if (!name.split(" ").every((client) => short.has(client))) this.#leads.delete(name);
    for (const [a, one] of short) {
      // Those of better priority may have had it all.
      if (one.shortAt === best)
        this.maxWait = Math.max(this.maxWait, rise(this.#waits, a, one.tokens === 0 ? 1 : -Infinity));
      for (const [b, other] of short) {
        if (a === b || one.shortAt !== other.shortAt) continue;
        this.maxLead = Math.max(this.maxLead, rise(this.#leads, `${a} ${b}`, one.inPages - other.tokens));
        this.numComparisons++;
      }
    }
  }
}

function rise(rises: Map<string, Rise>, name: string, amount: number): number {
  const found = rises.get(name) ?? new Rise();
  rises.set(name, found);
  found.add(amount);
  return found.most;
}

interface Habit {
  readonly name: string;
  readonly priority: number;
  /** One step in so many brings a burst. */
  readonly rarity: number;
  readonly burst: number;
  readonly promptLen: number;
  readonly maxTokens: number;
}

function habitOf(random: Random, name: string, numPriorities: number): Habit {
  return {
    name,
    priority: random(numPriorities),
    rarity: [1, 4, 30][random(3)]!,
    burst: [1, 1, 10][random(3)]!,
    promptLen: [2, 12, 60, 400][random(4)]!,
    maxTokens: [1, 1, 20][random(3)]!,
  };
}

function watch(seed: number, numPriorities: number): { onlooker: Onlooker; chunk: number; numClients: number } {
  const random = makeRandom(seed);
  const pageSize = [1, 4, 8, 16][random(4)]!;
  const maxPagesPerBatch = 96 / pageSize;
  const chunk = pageSize * (1 + random(maxPagesPerBatch));
  const options = { pageSize, maxPagesPerBatch, idealChunk: chunk, prefixCaching: false, pages: 40_000 };
  const onlooker = new Onlooker(new Simulation(options), chunk);
  const numClients = random(3) === 0 ? 20 : 2 + random(5);
  const habits = Array.from({ length: numClients }, (_, i) => habitOf(random, `c${i}`, numPriorities));
  let numArrived = 0;
  for (let step = 0; step < 150; step++) {
    for (const { name: client, priority, rarity, burst, promptLen, maxTokens } of habits) {
      if (onlooker.live.size > 60 || random(rarity) > 0) continue;
      for (let i = 0; i < burst; i++) {
        const prompt = tokensOf(numArrived, 1 + random(promptLen));
        onlooker.live.add(onlooker.sim.add(`r${numArrived++}`, prompt, { client, priority, maxTokens }));
      }
    }
    if (random(20) === 0 && onlooker.live.size > 0) onlooker.sim.scheduler.abort([...onlooker.live][0]!.id);
    onlooker.step();
  }
  return { onlooker, chunk, numClients };
}
for (const numPriorities of [1, 3]) {
  test(`property: clients that a step leaves short never differ by more than two chunks, and none waits long (priorities: ${numPriorities})`, () => {
    let numComparisons = 0;
    for (let seed = 1; seed <= 40; seed++) {
      const { onlooker, chunk, numClients } = watch(seed, numPriorities);
      assert.ok(onlooker.maxLead <= 2 * chunk, `seed ${seed}: ${onlooker.maxLead} tokens ahead, chunks of ${chunk}`);
      assert.ok(onlooker.maxWait <= 2 * numClients, `seed ${seed}: ${onlooker.maxWait} steps, ${numClients} clients`);
      numComparisons += onlooker.numComparisons;
    }
    assert.ok(numComparisons > 10_000, `${numComparisons}: otherwise the traffic was too tame to prove anything`);
  });
}

const ROOM = { pageSize: 4, maxPagesPerBatch: 8, idealChunk: 32, prefixCaching: false, pages: 20_000 } as const;

/** Prompt tokens of each client in the next ten steps; ids begin with the client's name. */
function tenSteps(sim: Simulation): Record<string, number> {
  const sums: Record<string, number> = {};
  for (let step = 0; step < 10; step++) {
    const before = new Map([...sim.scheduler.running()].map((request) => [request.id as string, request]));
    for (const { id, start, queryLen } of sim.step()) {
      const client = id.split(" ")[0]!;
      if (start < (before.get(id)?.promptLen ?? Infinity)) sums[client] = (sums[client] ?? 0) + queryLen;
    }
  }
  return sums;
}

function addMany(sim: Simulation, client: string, count: number, promptLen: number, maxTokens = 1): void {
  for (let i = 0; i < count; i++) {
    const id = `${client} ${sim.scheduler.numRunning + sim.scheduler.numWaiting} of ${sim.nowMs}`;
    sim.add(id, tokensOf(i, promptLen), { client, maxTokens });
  }
}

test("who only wrote for a while has saved up nothing", () => {
  const sim = new Simulation(ROOM);
  addMany(sim, "quiet", 1, 1, 500);
  addMany(sim, "busy", 20, 400);
  for (let i = 0; i < 20; i++) sim.step();
  addMany(sim, "quiet", 5, 400);
  const { quiet, busy } = tenSteps(sim);
  assert.ok(Math.abs(quiet! - busy!) <= 32, `${quiet} and ${busy}`);
});

test("nor has who sent a short prompt for every step", () => {
  const sim = new Simulation(ROOM);
  addMany(sim, "busy", 20, 400);
  for (let i = 0; i < 40; i++) {
    addMany(sim, "chat", 1, 3);
    sim.step();
  }
  addMany(sim, "chat", 5, 400);
  assert.deepEqual(tenSteps(sim), { busy: 160, chat: 160 });
});

test("nor who had one long prompt, of which a step computes one chunk", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 16, idealChunk: 16 });
  addMany(sim, "one", 1, 4000);
  addMany(sim, "many", 40, 400);
  assert.deepEqual(tenSteps(sim), { one: 160, many: 480 });
  addMany(sim, "one", 10, 400);
  assert.deepEqual(tenSteps(sim), { one: 320, many: 320 });
});

test("pages that do not come out even go round", () => {
  const sim = new Simulation(ROOM);
  for (const client of ["a", "b", "c"]) addMany(sim, client, 1, 4000);
  const { a, b, c } = tenSteps(sim);
  assert.ok(Math.max(a!, b!, c!) - Math.min(a!, b!, c!) <= 4, `${a}, ${b} and ${c}`);
});

test("a thousand tiny prompts have the part of one long prompt, and so have those that are cached but for a page", () => {
  const tiny = new Simulation({ ...ROOM, maxPagesPerBatch: 16, idealChunk: 64 });
  addMany(tiny, "long", 1, 4000);
  addMany(tiny, "tiny", 1000, 1);
  assert.deepEqual(tenSteps(tiny), { long: 320, tiny: 320 });
  const cached = new Simulation({ ...ROOM, prefixCaching: true });
  const prefix = tokensOf(7, 200);
  cached.add("warm", prefix);
  cached.runAll();
  cached.add("long 0", tokensOf(8, 4000), { client: "long" });
  for (let i = 0; i < 100; i++) cached.add(`cached ${i}`, [...prefix, ...tokensOf(10 + i, 4)], { client: "cached" });
  assert.deepEqual(tenSteps(cached), { long: 160, cached: 160 });
});

test("decodes do not count: who writes sixteen answers has an equal part of the prompts", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 16 });
  addMany(sim, "writer", 16, 1, 500);
  addMany(sim, "reader", 1, 1, 500);
  for (let i = 0; i < 20; i++) sim.step();
  addMany(sim, "writer", 1, 2000);
  addMany(sim, "reader", 1, 2000);
  const { writer, reader } = tenSteps(sim);
  assert.ok(writer! > 200 && Math.abs(writer! - reader!) <= 4, `${writer} and ${reader}`);
});

test("who leaves with more than its part has it still when it comes again, until the others have had as much", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 2, idealChunk: 8 });
  for (const client of ["a", "b"]) addMany(sim, client, 1, 4000);
  const sums: Record<string, number> = { a: 0, b: 0, guest: 0 };
  for (let i = 0; i < 9; i++) {
    // Its prompts are shorter than theirs: without an account it would have a page of every step.
    sim.add(`guest ${i}`, tokensOf(10 + i, 4), { client: "guest" });
    for (const { id, queryLen } of sim.step()) sums[id.split(" ")[0]!]! += queryLen;
  }
  assert.deepEqual(sums, { a: 24, b: 24, guest: 24 });
});

test("a long prompt has its turns although more newcomers come than a step computes", () => {
  const sim = new Simulation({ ...ROOM, maxPagesPerBatch: 4, idealChunk: 16 });
  const long = sim.add("long", tokensOf(1, 40), { client: "long" });
  let numNewcomers = 0;
  for (let step = 0; long.state !== "finished"; step++) {
    for (let i = 0; i < 4; i++) {
      const n = numNewcomers++;
      sim.add(`new ${n}`, tokensOf(2 + n, 4), { client: `new ${n}` });
    }
    sim.step();
    assert.ok(step < 40, "the long prompt starves");
  }
});

test("a newcomer of worse priority begins level with those it waits with, whatever better ones have been served", () => {
  const sim = new Simulation(ROOM);
  const add = (client: string, priority: number, promptLen: number): Request =>
    sim.add(`${client} ${priority}`, tokensOf(priority + 1, promptLen), { client, priority });
  for (const client of ["first", "second"]) {
    add(client, -1, 500);
    add(client, 0, 400);
    sim.step();
  }
  for (let i = 0; i < 20; i++) sim.step();
  add("newcomer", 0, 400);
  while (
    [...sim.scheduler.running()].some(({ priority, numComputed, promptLen }) => priority < 0 && numComputed < promptLen)
  )
    sim.step();
  const { first, second, newcomer } = tenSteps(sim);
  assert.ok(
    Math.max(first!, second!, newcomer!) - Math.min(first!, second!, newcomer!) <= 64,
    `${first}, ${second}, ${newcomer}`,
  );
});

const TIGHT = { ...ROOM, pages: 30 } as const;

test("a client with nothing running passes one that waits for pages which its own client holds", () => {
  const sim = new Simulation(TIGHT);
  sim.add("big 0", tokensOf(1, 60), { client: "big", maxTokens: 12 });
  for (let i = 0; i < 2; i++) sim.step();
  const waits = sim.add("big 1", tokensOf(2, 60), { client: "big" }); // 15 pages, 14 are free
  for (let i = 0; i < 3; i++) sim.step();
  const small = sim.add("small 0", tokensOf(9, 8), { client: "small", maxTokens: 9 });
  sim.step();
  assert.deepEqual([waits.state, small.state], ["waiting", "running"]);
  const second = sim.add("small 1", tokensOf(10, 8), { client: "small" });
  sim.step();
  assert.equal(second.state, "waiting", "once it has one running it waits its turn");
});

test("one that waits for pages, and whose client has nothing running, is passed by as many tokens as it has, and no more", () => {
  const sim = new Simulation(TIGHT);
  sim.add("holder 0", tokensOf(1, 60), { client: "holder", maxTokens: 30 });
  sim.step();
  const big = sim.add("big 0", tokensOf(2, 80), { client: "big" });
  sim.step();
  let numPassed = 0;
  for (let i = 0; ; i++) {
    const small = sim.add(`small ${i}`, tokensOf(3 + i, 4), { client: `small ${i}` });
    sim.step();
    if (big.state !== "waiting") break;
    assert.equal(small.state, i < 20 ? "finished" : "waiting");
    numPassed = i;
  }
  assert.ok(numPassed > 22);
});

test("a prompt that waits for pages holds up none that runs, not even of its own client", () => {
  const sim = new Simulation({ ...TIGHT, maxPagesPerBatch: 2, idealChunk: 8 });
  sim.add("other 0", tokensOf(1, 1), { client: "other", maxTokens: 30 });
  const running = sim.add("big 0", tokensOf(2, 60), { client: "big", maxTokens: 9 });
  sim.step();
  const waits = sim.add("big 1", tokensOf(3, 80), { client: "big" });
  while (running.numComputed < running.promptLen) {
    assert.ok(sim.step().some(({ id }) => id === "big 0"));
    assert.equal(waits.state, "waiting");
  }
});
