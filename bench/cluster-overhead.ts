// What a router costs: the same streams from a replica directly and through a router in front of it, in turns; and, one stream at a time,
// how much later the first token comes. All are processes of their own. Then what choosing by prefix saves on three replicas.
//   node dist/bench/cluster-overhead.js [--clients 32 --output 64 --repeat 5]

import { parseArgs } from "node:util";
import { renderTable } from "../src/cli/bench/table.js";
import { TestNats, whyNoNats } from "../test/support/nats.js";
import { startProcess } from "../test/support/served-process.js";
import { until } from "../test/support/test-server.js";

const { values } = parseArgs({
  options: {
    clients: { type: "string", default: "32" },
    output: { type: "string", default: "64" },
    repeat: { type: "string", default: "5" },
  },
});
const [numClients, numTokens, numRepeats] = [Number(values.clients), Number(values.output), Number(values.repeat)];
const median = (numbers: readonly number[]): number => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;
const PREFIX = "Once upon a time there was a small dog who lived in a house by the sea with an old man and his cat. ";

/** Milliseconds to the first token. */
async function stream(url: string, prompt: string, maxTokens: number): Promise<number> {
  const startMs = performance.now();
  const reply = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt, max_tokens: maxTokens, ignore_eos: true, temperature: 0, stream: true }),
  });
  let firstMs = -1;
  for await (const _ of reply.body!) if (firstMs < 0) firstMs = performance.now() - startMs;
  return firstMs;
}

async function tokensPerSecond(url: string): Promise<number> {
  const startMs = performance.now();
  await Promise.all(Array.from({ length: numClients }, (_, i) => stream(url, `Story ${i}:`, numTokens)));
  return (1000 * numClients * numTokens) / (performance.now() - startMs);
}

async function firstTokenMs(url: string): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 20; i++) times.push(await stream(url, `Tale ${i}:`, 2));
  return median(times);
}

const statsOf = async (url: string) =>
  (await fetch(`${url}/api/stats`)).json() as Promise<{
    model: { device: string };
    engine: { promptTokens: number; cachedTokens: number };
  }>;

if (whyNoNats() !== false) throw new Error(String(whyNoNats()));
await using nats = await TestNats.start();
const join = ["--nats", nats.url, "--log-level", "silent"];
await using first = await startProcess([...join, "--num-pages", "2000"]);
await using router = await startProcess(join, "ignore", ["route"]);
const isKnown = (count: number) =>
  until(async () => (await statsOf(router.url)).model.device.includes(`${count} replica`), "replicas are known", 100);
await isKnown(1);
const [direct, routed, directMs, routedMs]: [number[], number[], number[], number[]] = [[], [], [], []];
for (let i = 0; i <= numRepeats; i++) {
  const one = [
    await tokensPerSecond(first.url),
    await tokensPerSecond(router.url),
    await firstTokenMs(first.url),
    await firstTokenMs(router.url),
  ];
  if (i === 0) continue; // warming up
  for (const [k, list] of [direct, routed, directMs, routedMs].entries()) list.push(one[k]!);
}
process.stdout.write(
  renderTable({
    caption: `the bundled model, ${numClients} clients of ${numTokens} tokens, medians of ${numRepeats}`,
    head: ["way", "tokens/s", "first token ms, alone"],
    rows: [
      ["replica", median(direct), median(directMs)],
      ["router + replica", median(routed), median(routedMs)],
    ],
    notes: [
      `${((100 * median(routed)) / median(direct)).toFixed(1)} % of the tokens/s, ${(median(routedMs) - median(directMs)).toFixed(1)} ms later`,
    ],
  }),
);

await using _second = await startProcess([...join, "--num-pages", "2000"]);
await using _third = await startProcess([...join, "--num-pages", "2000"]);
await isKnown(3);
const urls = [first.url, _second.url, _third.url];
const computed = async (): Promise<number> => {
  const all = await Promise.all(urls.map(statsOf));
  return all.reduce((sum, { engine }) => sum + engine.promptTokens - engine.cachedTokens, 0);
};
const ask = (url: string, topic: number, i: number, group: string) =>
  stream(url, `${group} ${topic}. ${PREFIX.repeat(4)} ${i}`, 2);
const before = await computed();
for (let i = 0; i < 48; i++) await ask(urls[i % 3]!, i % 8, i, "alpha");
const between = await computed();
for (let i = 0; i < 48; i++) await ask(router.url, i % 8, i, "beta");
const end = await computed();
process.stdout.write(
  `48 prompts of 8 beginnings on 3 replicas: ${between - before} prompt tokens computed in turn, ${end - between} by prefix (${((between - before) / (end - between)).toFixed(1)} x fewer)\n`,
);
