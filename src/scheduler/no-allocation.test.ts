// The hot path allocates nothing: schedule() and land() of many rows, thousands of times, with requests whose arrays are large enough
// already; for one client, for several that decode while their prompts share the steps, and while another waits for pages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRequest, tokensOf } from "../../test/support/simulation.js";
import { CacheManager } from "../cache/cache-manager.js";
import { Scheduler } from "./scheduler.js";

const NUM_ROWS = 32;
/** Tokens of a step that are left for prompts. */
const PROMPT_ROOM = 32;
const SLICE_STEPS = 500;
/** The compiler needs a while, and longer on a busy machine, until all of it is as it stays. */
const MAX_SLICES = 60;

for (const numClients of [1, 3])
  test(`steps of ${NUM_ROWS} decodes allocate nothing, clients: ${numClients}`, () => checkHeap(numClients, false));

test(`steps of ${NUM_ROWS} decodes allocate nothing while another client waits for pages`, () => checkHeap(3, true));

async function checkHeap(numClients: number, isOneWaiting: boolean): Promise<void> {
  const { gc } = globalThis;
  assert.ok(gc, "run with --expose-gc");
  const pageSize = 16;
  const pagesPerRow = Math.ceil((MAX_SLICES * SLICE_STEPS + 16) / pageSize);
  const numPrompts = numClients > 1 ? numClients : 0;
  const pagesPerPrompt = Math.ceil((MAX_SLICES * SLICE_STEPS * PROMPT_ROOM) / numClients / pageSize);
  const cache = new CacheManager({
    pageSize,
    prefixCaching: numPrompts === 0, // what prompts publish is new
    groups: [{ kind: "full", numPages: 1 + NUM_ROWS * pagesPerRow + numPrompts * pagesPerPrompt }],
  });
  const options = {
    mode: "extend",
    pageSize,
    maxPagesPerBatch: (NUM_ROWS + PROMPT_ROOM) / pageSize,
    idealChunk: 32,
  } as const;
  let nowMs = 0;
  const scheduler = new Scheduler(options, cache, () => nowMs);
  const numRequests = NUM_ROWS + numPrompts;
  for (let i = 0; i < numRequests; i++) {
    const prompt = i < NUM_ROWS ? tokensOf(i, 3) : new Int32Array(pagesPerPrompt * pageSize);
    const request = makeRequest(`r${i}`, prompt, { client: `client ${i % numClients}`, maxTokens: 1 });
    const tokens = new Int32Array(Math.max(request.tokens.length, pagesPerRow * pageSize));
    tokens.set(request.tokens);
    request.tokens = tokens;
    request.tables[0]!.reserve(Math.max(pagesPerRow, pagesPerPrompt));
    scheduler.add(request);
  }
  if (isOneWaiting) {
    const prompt = new Int32Array((NUM_ROWS * pagesPerRow + 1) * pageSize);
    scheduler.add(makeRequest("waits", prompt, { client: "another" }));
  }
  const decode = (numSteps: number): void => {
    for (let i = 0; i < numSteps; i++) {
      nowMs += 1; // whole: a fraction would be boxed here
      const step = scheduler.schedule()!;
      scheduler.land(step);
      for (let r = 0; r < step.numRows; r++) {
        const request = step.rows[r]!;
        if (request.numComputed === request.numTokens) request.appendToken(i % 100);
      }
    }
  };
  // In slices, so that a scavenge in one of them cannot hide what the others allocate. One object of 16 bytes a step would be
  // 8 KB in every slice; now and then the runtime adds something of its own.
  const grown: number[] = [];
  const numQuiet = (): number => grown.filter((bytes) => bytes < 6_000).length;
  while (numQuiet() < 3 && grown.length < MAX_SLICES) {
    await new Promise(setImmediate); // the compiler's turn
    gc();
    const before = process.memoryUsage().heapUsed;
    decode(SLICE_STEPS);
    grown.push(process.memoryUsage().heapUsed - before);
  }
  assert.deepEqual([scheduler.numRunning, scheduler.numWaiting], [numRequests, isOneWaiting ? 1 : 0]);
  assert.ok(numQuiet() >= 3, `bytes a slice: ${grown}`);
}
