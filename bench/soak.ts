// Does a server that answers many short requests stay the size it was? Sends them in a fixed mix (chat, streams, several samples,
// structured output, embeddings, refused bodies, clients that hang up) and notes the process's memory after every so many. Of a
// model of random weights, so small that the server is nearly all that runs, unless another is named.
//   node dist/bench/soak.js [--requests 200000 --every 5000 --clients 16 --model DIR --out docs/images/soak.svg]

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeTinyCheckpoint } from "../test/support/tiny-checkpoint.js";
import { lineChart } from "./line-chart.js";

interface Shot {
  readonly path: string;
  readonly body: Record<string, unknown>;
  readonly leaves?: boolean;
}

const SCHEMA = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };

/** Request number i: the prompts repeat after a thousand, so that the prefix cache has a share. */
function shotOf(i: number): Shot {
  const messages = [{ role: "user", content: `Tell me about number ${i % 1000}.` }];
  const chat = { messages, max_tokens: 2 + (i % 5), seed: i };
  switch (i % 10) {
    case 0:
    case 1:
      return { path: "/v1/chat/completions", body: { ...chat, stream: true } };
    case 2:
      return { path: "/v1/chat/completions", body: { ...chat, n: 2, logprobs: true } };
    case 3:
      return { path: "/v1/chat/completions", body: { ...chat, stream: true, max_tokens: 60 }, leaves: true };
    case 4:
      return {
        path: "/v1/chat/completions",
        body: { ...chat, max_tokens: 12, response_format: { type: "json_schema", json_schema: { schema: SCHEMA } } },
      };
    case 5:
      return { path: "/v1/embeddings", body: { input: `number ${i % 1000}` } };
    case 6:
      return { path: "/v1/completions", body: { prompt: ["Once", `Once upon ${i % 1000}`], max_tokens: 3, stop: "e" } };
    case 7:
      return { path: "/v1/chat/completions", body: { ...chat, temperature: "hot" } };
    case 8:
      return { path: "/v1/responses", body: { input: `number ${i % 1000}`, max_output_tokens: 3 } };
    default:
      return { path: "/v1/chat/completions", body: chat };
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

function send(url: string, { path, body, leaves }: Shot): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const call = request(url + path, { method: "POST", headers, agent }, (response) => {
      response.on("data", () => leaves === true && call.destroy());
      response.on("error", () => undefined); // our own doing
      response.on("close", resolve);
      if ((response.statusCode ?? 500) >= 500) reject(new Error(`${path} answered ${response.statusCode}`));
    });
    // A kept connection may be closed, rightly, just as it is used again.
    call.on("error", (error) => (call.reusedSocket ? resolve(send(url, { path, body })) : reject(error)));
    call.end(JSON.stringify(body));
  });
}

interface Memory {
  readonly residentMb: number; // of the whole process
  readonly heapMb: number; // JavaScript heap of the HTTP thread
}

async function memoryOf(url: string): Promise<Memory> {
  const scrape = await (await fetch(`${url}/metrics`)).text();
  const mb = (name: string): number => Number(new RegExp(`^${name}\\S* (\\d+)`, "m").exec(scrape)![1]) / 2 ** 20;
  return { residentMb: mb("process_resident_memory_bytes"), heapMb: mb("nodejs_heap_size_used_bytes") };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "200000" },
    every: { type: "string", default: "5000" },
    clients: { type: "string", default: "16" },
    model: { type: "string" },
    out: { type: "string" },
  },
});
const [total, every, clients] = [Number(values.requests), Number(values.every), Number(values.clients)];
const bin = fileURLToPath(new URL("../../bin/pagoda.js", import.meta.url));
const model = values.model ?? writeTinyCheckpoint();
const args = [bin, "serve", "--model", model, "--port", "0", "--log-level", "silent"];
args.push("--threads", "1", "--kv-memory-mb", "64");
const server = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
process.once("exit", () => server.kill("SIGKILL")); // whatever became of the run
const url = await new Promise<string>((resolve) => {
  createInterface(server.stderr).on("line", (line) => {
    const found = /dashboard\s+(http:\S+)/.exec(line);
    if (found !== null) resolve(found[1]!);
  });
});

const taken: (Memory & { readonly requests: number })[] = [];
/** After every sample: a run that is ended early leaves its plot too. */
function draw(path: string): void {
  const line = (label: string, read: keyof Memory) => ({
    label,
    points: taken.map((at) => ({ x: at.requests, y: at[read] })),
  });
  const lines = [line("resident", "residentMb"), line("JavaScript heap of the HTTP thread", "heapMb")];
  writeFileSync(path, lineChart("Memory of the server, MiB", "requests", lines));
}

let sent = 0;
const startMs = performance.now();
console.log("| requests | resident MiB | heap MiB | requests/s |\n|---|---|---|---|");
while (sent < total) {
  const beganMs = performance.now();
  const count = Math.min(total - sent, every);
  const end = sent + count;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (sent < end) await send(url, shotOf(sent++));
    }),
  );
  const perSecond = (count * 1000) / (performance.now() - beganMs);
  const memory = await memoryOf(url);
  taken.push({ requests: sent, ...memory });
  if (values.out !== undefined) draw(values.out);
  console.log(`| ${sent} | ${memory.residentMb.toFixed(1)} | ${memory.heapMb.toFixed(1)} | ${perSecond.toFixed(0)} |`);
}
console.log(`\n${total} requests in ${((performance.now() - startMs) / 1000).toFixed(0)} s. Means by quarter:`);
const size = Math.max(1, taken.length >> 2);
for (const read of ["residentMb", "heapMb"] as const) {
  const quarters = [0, 1, 2, 3].map((q) => mean(taken.slice(q * size, q * size + size).map((at) => at[read])));
  console.log(`${read}: ${quarters.map((mb) => mb.toFixed(1)).join(", ")}`);
}
server.kill("SIGTERM");
