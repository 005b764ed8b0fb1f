// What HTTP costs: 32 answers streamed through the server to another process, against the same 32 taken from the same engine
// directly. Interleaved, medians, one line. Make a checkpoint of a real shape first (bench/make-checkpoint.ts).
//   node dist/bench/serve-overhead.js --model 135m-q8 [--clients 32 --output 64 --repeat 5]

import { fork } from "node:child_process";
import { request } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createEngine } from "../src/engine/client/engine.js";
import type { Engine } from "../src/engine/types.js";
import { createServer } from "../src/server/server.js";

interface Order {
  readonly url: string;
  readonly prompts: readonly (readonly number[])[];
  readonly output: number;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

async function direct(engine: Engine, { prompts, output }: Order): Promise<void> {
  await Promise.all(
    prompts.map(async (prompt) => {
      for await (const _ of engine.generate(prompt, { maxTokens: output, ignoreEos: true, temperature: 0 }));
    }),
  );
}

/** In the client process. */
function ask({ url, output }: Order, prompt: readonly number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const call = request(`${url}/v1/completions`, { method: "POST", agent: false, headers }, (response) => {
      response.resume();
      response.on("end", resolve);
    });
    call.on("error", reject);
    call.end(JSON.stringify({ prompt, max_tokens: output, ignore_eos: true, temperature: 0, stream: true }));
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      model: { type: "string" },
      clients: { type: "string", default: "32" },
      input: { type: "string", default: "64" },
      output: { type: "string", default: "64" },
      repeat: { type: "string", default: "5" },
      threads: { type: "string", default: "2" },
    },
  });
  const { model } = values;
  const engine = await createEngine({
    ...(model === undefined ? {} : { model }),
    threads: Number(values.threads),
    prefixCaching: false,
  });
  const server = createServer(engine, { port: 0, logLevel: "silent" });
  const { url } = await server.listen();
  const client = fork(fileURLToPath(import.meta.url), ["--client"]);
  const { vocabSize } = engine.model;
  const prompts = Array.from({ length: Number(values.clients) }, (_, r) =>
    Array.from({ length: Number(values.input) }, (_, i) => (r * 7919 + i * 104729) % vocabSize),
  );
  const order: Order = { url, prompts, output: Number(values.output) };
  const served = (): Promise<void> =>
    new Promise((resolve) => {
      client.once("message", () => resolve());
      client.send(order);
    });
  const timeOf = async (run: () => Promise<void>): Promise<number> => {
    const start = performance.now();
    await run();
    return performance.now() - start;
  };
  await direct(engine, order);
  await served();
  const [directMs, servedMs]: [number[], number[]] = [[], []];
  for (let i = 0; i < Number(values.repeat); i++) {
    directMs.push(await timeOf(() => direct(engine, order)));
    servedMs.push(await timeOf(served));
  }
  const tokens = prompts.length * order.output;
  const rate = (ms: number) => ((tokens * 1000) / ms).toFixed(0);
  const [d, s] = [median(directMs), median(servedMs)];
  console.log(
    `${engine.model.name}: ${prompts.length} streams of ${order.output} tokens: direct ${rate(d)} tokens/s, served ${rate(s)} tokens/s, ` +
      `served is ${((100 * d) / s).toFixed(1)} % of direct`,
  );
  client.kill();
  await server.close(0);
  await engine.close();
}

if (process.argv[2] === "--client") {
  process.on("message", async (order: Order) => {
    await Promise.all(order.prompts.map((prompt) => ask(order, prompt)));
    process.send!("done");
  });
} else await main();
