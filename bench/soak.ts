// Does a server that answers many short requests stay the size it was? Sends them in a fixed mix (chat, streams, several samples,
// structured output, embeddings, refused bodies, clients that hang up) and notes the process's memory after every so many.
//   node dist/bench/soak.js [--requests 200000 --every 5000 --clients 16 --model DIR --out docs/images/soak.svg]

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
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
    call.on("error", reject);
    call.end(JSON.stringify(body));
  });
}

/** Resident memory of a process, in MiB. */
function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;
}

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
const args = [bin, "serve", "--port", "0", "--log-level", "silent", "--threads", "1", "--kv-memory-mb", "64"];
if (values.model !== undefined) args.push("--model", values.model);
const server = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
const url = await new Promise<string>((resolve) => {
  createInterface(server.stderr).on("line", (line) => {
    const found = /dashboard\s+(http:\S+)/.exec(line);
    if (found !== null) resolve(found[1]!);
  });
});

const points: { x: number; y: number }[] = [];
let sent = 0;
const startMs = performance.now();
console.log("| requests | resident MiB | requests/s |\n|---|---|---|");
while (sent < total) {
  const end = Math.min(total, sent + every);
  const beganMs = performance.now();
  const count = end - sent;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (sent < end) await send(url, shotOf(sent++));
    }),
  );
  const mb = residentMb(server.pid!);
  points.push({ x: sent, y: mb });
  console.log(`| ${sent} | ${mb.toFixed(1)} | ${((count * 1000) / (performance.now() - beganMs)).toFixed(0)} |`);
}
const half = points.slice(points.length >> 1);
const slope = ((half.at(-1)!.y - half[0]!.y) * 1000) / Math.max(1, half.at(-1)!.x - half[0]!.x);
console.log(
  `\n${total} requests in ${((performance.now() - startMs) / 1000).toFixed(0)} s; second half: ${slope.toFixed(3)} MiB per 1,000 requests`,
);
if (values.out !== undefined)
  writeFileSync(values.out, lineChart("Resident memory of the server, MiB", "requests", [{ label: "", points }]));
server.kill("SIGTERM");
