// A cluster of processes that loses its members one after another: replicas are killed, stopped and drained in turn, and NATS itself is
// killed and started again, while clients stream. Every stream must end with exactly the text it has alone.
//   CLUSTER_STREAMS=300 (npm run test:cluster) is the long version.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createEngine } from "../../src/engine/client/engine.js";
import { type Asked, alone, numReplicas, statsOf, stream } from "../support/cluster-streams.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { type ServedProcess, startProcess } from "../support/served-process.js";
import { PATIENCE_MS, TINY_MODEL } from "../support/small-cluster.js";
import { until } from "../support/until.js";

const NUM_STREAMS = Number(process.env.CLUSTER_STREAMS ?? 12);
const IS_LONG = NUM_STREAMS > 100;
const NUM_CLIENTS = IS_LONG ? 8 : 4;
const STORY = "Once upon a time there was a small dog who lived in a house by the sea with an old man and his cat. ";

/** All that makes continuing an answer hard, in turn. */
function askFor(i: number): Asked {
  const beginning = ["", STORY, `Book ${i}. ${STORY.repeat(4)}`][i % 3]; // short; shared; long enough for a prefill replica
  const base = { prompt: `${beginning}Story ${i}: `, max_tokens: 100, seed: i, temperature: 0.9 };
  const kinds: readonly object[] = [
    {},
    { repetition_penalty: 1.2, frequency_penalty: 0.3, min_tokens: 90 },
    { stop: ["!", "e", "th"] },
    { n: 2, temperature: 1.1, max_tokens: 60 },
    { temperature: 0 },
  ];
  return { ...base, ...kinds[i % kinds.length] };
}

test("streams go on, to the letter, while replicas are killed, stopped and drained and NATS is restarted", {
  skip: whyNoNats(),
}, async () => {
  await using nats = await TestNats.start();
  const cluster = ["--nats", nats.url, "--lease-seconds", "1.5", "--log-level", "silent"];
  const startReplica = (role = "both"): Promise<ServedProcess> =>
    startProcess([...cluster, "--model", TINY_MODEL, "--role", role, "--num-pages", "400", "--drain-seconds", "0.2"]);
  const patience = ["--patience-seconds", String(PATIENCE_MS / 1000)];
  const routerArgs = [...cluster, ...patience, "--model", TINY_MODEL, "--prefill-tokens", "64"];
  await using router = await startProcess(routerArgs, "ignore", ["route"]);
  const replicas = await Promise.all([startReplica(), startReplica("decode"), startReplica("prefill")]);
  try {
    const known = (count: number, what: string) =>
      until(async () => (await numReplicas(router.url)) === count, what, 100);
    await known(3, "all replicas are known");

    let numTokens = 0;
    let numWanted = 0;
    let isOver = false;
    let next = 0;
    const results: { readonly i: number; readonly got: string }[] = [];
    const client = async (): Promise<void> => {
      while (!isOver) {
        await until(() => isOver || numTokens < numWanted, "more is asked for");
        const i = next++;
        results.push({ i, got: await stream(router.url, askFor(i), () => numTokens++) });
      }
    };
    /** Returns while all clients are in the middle of a stream. */
    const moreTokens = (): Promise<void> => {
      numWanted = numTokens + (IS_LONG ? 800 : 60);
      return until(() => numTokens >= numWanted, "more tokens");
    };
    const trouble = async (): Promise<void> => {
      for (;;) {
        await moreTokens();
        replicas[0]!.child.kill("SIGKILL");
        await replicas[0]!.exit;
        await moreTokens();
        await nats.kill();
        await nats.start();
        await moreTokens();
        replicas[0] = await startReplica();
        await known(3, "all replicas are back");
        await moreTokens();
        replicas[1]!.child.kill("SIGSTOP");
        await known(2, "the stopped replica is missed");
        replicas[1]!.child.kill("SIGCONT");
        await known(3, "the stopped replica is back");
        await moreTokens();
        replicas[2]!.child.kill("SIGTERM");
        await replicas[2]!.exit;
        if (next >= NUM_STREAMS) return;
        replicas[2] = await startReplica("prefill");
      }
    };
    const troubled = trouble().finally(() => {
      isOver = true;
    });
    await Promise.all([troubled, ...Array.from({ length: NUM_CLIENTS }, client)]);

    await using engine = await createEngine({ model: TINY_MODEL, threads: 1, numPages: 1000 });
    const expected = await Promise.all(results.map(({ i }) => alone(engine, askFor(i))));
    for (const [at, { i, got }] of results.entries()) assert.equal(got, expected[at], `stream ${i}`);
    assert.ok(results.length >= NUM_STREAMS);

    for (const { url, child } of replicas) {
      if (child.exitCode !== null) continue;
      await until(async () => {
        const { engine: stats } = await statsOf(url);
        return stats.pagesUsed === 0 && stats.running === 0 && stats.waiting === 0;
      }, "all pages come back");
    }
    await until(async () => (await statsOf(router.url)).server.active === 0, "every place is free");
  } finally {
    for (const replica of replicas) {
      replica.child.kill("SIGCONT");
      await replica[Symbol.asyncDispose]();
    }
  }
});
