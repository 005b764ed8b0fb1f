// Good clients beside hostile ones of every kind that bench/hostile-load.ts has: every good answer is the one that its request has
// alone, nobody is told of a fault, and nothing is left behind. What hostile grammars cost others: never-stuck.test.ts.

import assert from "node:assert/strict";
import { setMaxListeners } from "node:events";
import { test } from "node:test";
import { GoodRecord, goodClient, textsAlone } from "../../bench/load/good-clients.js";
import { ATTACKS, hostileClient, numFaults, type Tally } from "../../bench/load/hostile-clients.js";
import { ownAddress } from "../../bench/load/stream-chat.js";
import { seeded } from "../support/byte-matcher.js";
import { startServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

test("beside hostile clients good ones get exactly what they get alone, and nothing leaks", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint({ context: 2048 }), numPages: 400 });
  const alone = await textsAlone(host.url, 10);
  const record = new GoodRecord(alone);
  const tally: Tally = new Map();
  const random = seeded(7);
  const { signal } = new AbortController();
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const names = Object.keys(ATTACKS).filter((name) => !name.endsWith("without end"));
  const attack = names.map((name, i) =>
    hostileClient({ url: host.url, address: ownAddress(2, i) }, name, tally, {
      random,
      signal: over.signal,
      everyMs: 30,
    }),
  );
  await Promise.all(
    Array.from({ length: 6 }, (_, i) =>
      goodClient(host.url, record, { random, signal, maxAsked: 5, address: ownAddress(1, i) }),
    ),
  );
  over.abort();
  await Promise.all(attack);
  assert.deepEqual(record.wrong, []);
  assert.equal(record.waits.length, 30);
  assert.equal(tally.size, names.length);
  assert.equal(numFaults(tally), 0, JSON.stringify([...tally].map(([name, ends]) => [name, [...ends]])));
  await until(async () => {
    const { running, waiting, pagesUsed } = await host.engine.stats();
    return running + waiting + pagesUsed === 0;
  }, "the engine is empty");
  await until(() => host.server.context.gate.active === 0, "every place is free");
});
