// What the scheduler does where pages are short: no model, no device, the same numbers on every machine. Prints; asserts nothing.
//   node dist/bench/page-pressure.js [64]      as many tokens as a step takes for itself: few on a slow processor, hundreds on a GPU
//
//   computed       tokens computed for each that is needed: what is above 1 was computed again after preemptions
//   time           of all steps, in tokens
//   first, last    from arrival to a request's first and last token, mean; of newcomers in steps

import { CacheManager } from "../src/cache/cache-manager.js";
import type { RequestId } from "../src/core/ids.js";
import { Request } from "../src/core/request.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import { Scheduler } from "../src/scheduler/scheduler.js";

const PAGE = 16;
const STEP_TOKENS = Number(process.argv[2] ?? 64);

interface Arrival {
  readonly client?: string;
  readonly promptLen: number;
  readonly answerLen: number;
  /** What it asks for; default: what it writes. */
  readonly maxTokens?: number;
  readonly afterStep?: number;
}

interface Served {
  readonly arrival: Arrival;
  readonly request: Request;
  arrivedStep: number;
  firstStep: number;
  lastStep: number;
  /** The same, in tokens. */
  arrived: number;
  first: number;
  last: number;
}

class World {
  readonly #scheduler: Scheduler;
  readonly #live = new Map<Request, Served>();
  readonly served: Served[] = [];
  numTokens = 0;
  numSteps = 0;

  constructor(pages: number) {
    const groups = [{ kind: "full", numPages: pages + 1 }] as const;
    const cache = new CacheManager({ pageSize: PAGE, prefixCaching: true, groups });
    const options = { mode: "extend", pageSize: PAGE, maxPagesPerBatch: 32, idealChunk: 128 } as const;
    this.#scheduler = new Scheduler(options, cache, () => 0);
  }

  run(arrivals: readonly Arrival[]): this {
    const coming = arrivals.toSorted((a, b) => (a.afterStep ?? 0) - (b.afterStep ?? 0));
    for (let next = 0; next < coming.length || this.#live.size > 0; this.#step()) {
      while (next < coming.length && (coming[next]!.afterStep ?? 0) <= this.numSteps) this.#add(coming[next]!, next++);
    }
    return this;
  }

  get time(): number {
    return STEP_TOKENS * this.numSteps + this.numTokens;
  }

  get numNeeded(): number {
    return this.served.reduce((sum, { request }) => sum + request.numTokens - 1, 0);
  }

  get numPreemptions(): number {
    return this.served.reduce((sum, { request }) => sum + request.numPreemptions, 0);
  }

  #add(arrival: Arrival, index: number): void {
    const { client = "", promptLen, answerLen, maxTokens = answerLen } = arrival;
    const prompt = Array.from({ length: promptLen }, (_, i) => index * 100_000 + i);
    const sampling = { ...SAMPLING_DEFAULTS, seed: 0, maxTokens };
    const request = new Request({ id: `r${index}` as RequestId, prompt, sampling, client });
    this.#scheduler.add(request);
    const [arrivedStep, arrived] = [this.numSteps, this.time];
    const served = { arrival, request, arrivedStep, arrived, firstStep: -1, lastStep: -1, first: -1, last: -1 };
    this.#live.set(request, served);
    this.served.push(served);
  }

  #step(): void {
    this.numSteps++;
    const step = this.#scheduler.schedule();
    if (step === null) return;
    this.numTokens += step.numTokens;
    this.#scheduler.land(step);
    for (const request of step.rows.slice(0, step.numRows)) {
      if (request.numComputed < request.numTokens) continue;
      const served = this.#live.get(request)!;
      if (served.firstStep < 0) Object.assign(served, { firstStep: this.numSteps, first: this.time });
      request.appendToken(request.numTokens % 1000);
      if (request.numGenerated < served.arrival.answerLen) continue;
      this.#scheduler.finish(request, "stop");
      Object.assign(served, { lastStep: this.numSteps, last: this.time });
      this.#live.delete(request);
    }
  }
}

function pagesOf({ promptLen, answerLen }: Arrival): number {
  return Math.ceil((promptLen + answerLen) / PAGE);
}

/** The same on every machine. */
function numbers(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

const random = numbers(7);
const range = (least: number, most: number) => least + random(most - least + 1);
const list = (length: number, make: (i: number) => Arrival) => Array.from({ length }, (_, i) => make(i));

const LOADS: [string, readonly Arrival[]][] = [
  ["64 alike, prompt 128, answer 128", list(64, () => ({ promptLen: 128, answerLen: 128 }))],
  ["64 long answers, prompt 64, answer 512", list(64, () => ({ promptLen: 64, answerLen: 512 }))],
  ["64 long prompts, prompt 512, answer 64", list(64, () => ({ promptLen: 512, answerLen: 64 }))],
  [
    "200 mixed, prompt 16-400, answer 16-400",
    list(200, () => ({ promptLen: range(16, 400), answerLen: range(16, 400) })),
  ],
  [
    "200 mixed that ask for 2000 and stop at 16-400",
    list(200, () => ({ promptLen: range(16, 400), answerLen: range(16, 400), maxTokens: 2000 })),
  ],
  [
    "200 of 8 clients, mixed, one after the other",
    list(200, (i) => ({ client: `c${i % 8}`, promptLen: range(16, 400), answerLen: range(16, 400), afterStep: 4 * i })),
  ],
  [
    "200 of one client, mixed, one after the other",
    list(200, (i) => ({ promptLen: range(16, 400), answerLen: range(16, 400), afterStep: 4 * i })),
  ],
];

console.log("one pool, more asked for than it holds\n");
for (const [name, arrivals] of LOADS) {
  const total = Math.min(64, arrivals.length) * mean(arrivals.map(pagesOf)); // of 64 at a time
  for (const times of [1, 2, 4, 8]) {
    const pages = Math.max(Math.ceil(total / times), ...arrivals.map(pagesOf));
    const world = new World(pages).run(arrivals);
    const cells = [
      `x${times}`,
      `computed ${(world.numTokens / world.numNeeded).toFixed(3)}`,
      `preempted ${world.numPreemptions} (most ${Math.max(...world.served.map(({ request }) => request.numPreemptions))})`,
      `steps ${world.numSteps}`,
      `time ${world.time}`,
      `first ${mean(world.served.map(({ arrived, first }) => first - arrived)).toFixed(0)}`,
      `last ${mean(world.served.map(({ arrived, last }) => last - arrived)).toFixed(0)}`,
    ];
    console.log(`${name.padEnd(50)} ${cells.join("  ")}`);
  }
}

console.log("\nnewcomers of another client\n");
const greedy = list(64, () => ({ client: "greedy", promptLen: 256, answerLen: 512 }));
const NEWCOMERS: [string, readonly Arrival[], readonly Arrival[]][] = [
  ["one short request, at step 50", greedy, [{ client: "b", promptLen: 64, answerLen: 32, afterStep: 50 }]],
  ["one short request, at step 400", greedy, [{ client: "b", promptLen: 64, answerLen: 32, afterStep: 400 }]],
  [
    "a short request every 100 steps",
    greedy,
    list(20, (i) => ({ client: "b", promptLen: 64, answerLen: 32, afterStep: 50 + 100 * i })),
  ],
  [
    "a short request of another client every 25 steps",
    greedy,
    list(40, (i) => ({ client: `b${i}`, promptLen: 64, answerLen: 32, afterStep: 50 + 25 * i })),
  ],
  ["as many as the first, at step 50", greedy, greedy.map((arrival) => ({ ...arrival, client: "b", afterStep: 50 }))],
  [
    "one that fills the pool, then one of a sixth every 100 steps",
    [{ client: "greedy", promptLen: 11_000, answerLen: 1200 }],
    list(12, (i) => ({ client: "b", promptLen: 2000, answerLen: 50, afterStep: 150 + 100 * i })),
  ],
  [
    "one that fills the pool, then a short one every 20 steps",
    [{ client: "greedy", promptLen: 11_780, answerLen: 500 }],
    list(24, (i) => ({ client: "b", promptLen: 300, answerLen: 100, afterStep: 150 + 20 * i })),
  ],
  [
    "long ones, then one of a sixth every 100 steps",
    list(16, () => ({ client: "greedy", promptLen: 2000, answerLen: 1200 })),
    list(12, (i) => ({ client: "b", promptLen: 2000, answerLen: 50, afterStep: 150 + 100 * i })),
  ],
];
for (const [name, first, second] of NEWCOMERS) {
  const world = new World(768).run([...first, ...second]);
  const newcomers = world.served.filter(({ arrival }) => arrival.client !== "greedy");
  const others = world.served.filter(({ arrival }) => arrival.client === "greedy");
  const waits = newcomers.map(({ arrivedStep, firstStep }) => firstStep - arrivedStep);
  const ends = newcomers.map(({ arrivedStep, lastStep }) => lastStep - arrivedStep);
  const cells = [
    `first ${mean(waits).toFixed(0)} (most ${Math.max(...waits)})`,
    `last ${mean(ends).toFixed(0)} (most ${Math.max(...ends)})`,
    `others' last ${mean(others.map(({ lastStep }) => lastStep)).toFixed(0)}`,
    `preempted ${world.numPreemptions} (most ${Math.max(...world.served.map(({ request }) => request.numPreemptions))})`,
    `computed ${(world.numTokens / world.numNeeded).toFixed(3)}`,
    `steps ${world.numSteps}`,
  ];
  console.log(`${name.padEnd(62)} ${cells.join("  ")}`);
}
