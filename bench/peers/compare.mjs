// Runs Pagoda, node-llama-cpp and llama.cpp alone on the same GGUF files, in turns, and prints medians and ratios.
//   node compare.mjs --model FILE.gguf [--model ...] [--threads 2] [--repeat 5] [--steps 32] [--kinds prefill,decode,mix]
//                    [--rows 1,8,32] [--requests 32] [--system 128] [--parallel 32] [--seed 1] [--json FILE]

import { writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine, machineFacts } from "../../dist/src/cli/bench/machine.js";
import { median } from "../../dist/src/cli/bench/statistics.js";
import { renderTable } from "../../dist/src/cli/bench/table.js";
import { bareLlama, nodeLlamaCpp, openLlama } from "./node-llama-cpp.mjs";
import { openPagoda } from "./pagoda.mjs";
import { PREFILL_LEN, Prompts, servingMix } from "./workload.mjs";

const { values } = parseArgs({
  options: {
    model: { type: "string", multiple: true },
    threads: { type: "string", default: String(availableParallelism()) },
    repeat: { type: "string", default: "5" },
    steps: { type: "string", default: "32" },
    kinds: { type: "string", default: "prefill,decode,mix" },
    rows: { type: "string", default: "1,8,32" },
    requests: { type: "string", default: "32" },
    system: { type: "string", default: "128" },
    parallel: { type: "string", default: "32" },
    seed: { type: "string", default: "1" },
    json: { type: "string" },
  },
});
if (values.model === undefined) {
  console.error("compare.mjs needs --model FILE.gguf; see README.md");
  process.exit(2);
}
const [threads, repeat, steps, numRequests, systemLen, parallel, seed] = [
  values.threads,
  values.repeat,
  values.steps,
  values.requests,
  values.system,
  values.parallel,
  values.seed,
].map(Number);
const rows = values.rows.split(",").map(Number);
const kinds = values.kinds.split(",");

const progress = (text) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${text}`);
const pause = () => new Promise((resolve) => setTimeout(resolve, 100)); // the last peer's threads come to rest

/** What is measured: the tokens a run yields, and how a peer is made ready for it; run() gives seconds. */
function workloads(requests, prompts) {
  const list = [];
  if (kinds.includes("prefill")) {
    const open = (peer) => ({ run: () => peer.prefill(prompts, PREFILL_LEN), close() {} });
    list.push({ name: `prefill of ${PREFILL_LEN}`, tokens: PREFILL_LEN, open });
  }
  if (kinds.includes("decode")) {
    for (const n of rows) {
      list.push({ name: `decode of ${n}`, tokens: n * steps, open: (peer) => peer.openDecode(prompts, n, steps) });
    }
  }
  if (kinds.includes("mix")) {
    const tokens = requests.reduce((sum, { outputLen }) => sum + outputLen, 0);
    const open = (peer) => (peer.mix === undefined ? null : { run: () => peer.mix(requests, parallel), close() {} });
    list.push({ name: `mix of ${requests.length} requests`, tokens, open });
  }
  return list;
}

/** The settings of llama.cpp that are fastest here, judged by a prefill and a short decode of 8. */
async function bestSettings(llama, prompts) {
  let best = null;
  for (let count = 1; count <= threads; count++) {
    for (const flashAttention of [false, true]) {
      progress(`llama.cpp with ${count} threads, flash attention ${flashAttention}`);
      const settings = { threads: count, flashAttention };
      const peer = bareLlama(llama, settings);
      const decode = await peer.openDecode(prompts, 8, 16);
      const seconds = (await peer.prefill(prompts, PREFILL_LEN)) + (await decode.run());
      await decode.close();
      if (best === null || seconds < best.seconds) best = { seconds, settings };
    }
  }
  return best.settings;
}

/** Tokens per second of each run, by peer. The peers take turns, and nobody is always first. */
async function measure({ name, tokens, open }, peers, label) {
  const ready = [];
  for (const peer of peers) ready.push(await open(peer));
  const rates = peers.map(() => []);
  for (let i = 0; i < repeat; i++) {
    for (let turn = 0; turn < peers.length; turn++) {
      const p = (turn + i) % peers.length;
      if (ready[p] === null) continue;
      progress(`${label}: ${name}, run ${i + 1} of ${repeat}, ${peers[p].name}`);
      await pause();
      rates[p].push(tokens / (await ready[p].run()));
    }
  }
  for (const each of ready) await each?.close();
  return { name, tokens, rates: Object.fromEntries(peers.map((peer, p) => [peer.name, rates[p]])) };
}

async function compare(model) {
  const pagoda = await openPagoda({ model, threads });
  const llama = await openLlama(model);
  const prompts = new Prompts(seed, pagoda.vocabSize);
  const settings = await bestSettings(llama, prompts);
  const peers = [pagoda, nodeLlamaCpp(llama, settings), bareLlama(llama, settings)];
  const requests = servingMix({ seed, count: numRequests, systemLen, vocabSize: pagoda.vocabSize });
  const results = [];
  for (const work of workloads(requests, prompts)) results.push(await measure(work, peers, basename(model)));
  progress("");
  await pagoda.close();
  await llama.close();
  const device = pagoda.description;
  return { model: basename(model), pagoda: { device, threads }, llama: settings, results, loadAfter: loadavg()[0] };
}

const machine = machineFacts();
console.log(`${describeMachine(machine)}\n`);
const reports = [];
for (const model of values.model) {
  const report = await compare(model);
  reports.push(report);
  const mid = (rates) => (rates.length === 0 ? Number.NaN : median(rates));
  console.log(
    renderTable({
      caption:
        `${report.model}: tokens/s, medians of ${repeat}; Pagoda ${threads} threads, llama.cpp ${report.llama.threads} threads, ` +
        `flash attention ${report.llama.flashAttention ? "on" : "off"}`,
      head: ["", "pagoda", "node-llama-cpp", "llama.cpp", "x node-llama-cpp", "x llama.cpp"],
      rows: report.results.map(({ name, rates }) => {
        const [ours, library, bare] = ["pagoda", "node-llama-cpp", "llama.cpp"].map((peer) => mid(rates[peer]));
        return [name, ours, library, bare, ours / library, ours / bare];
      }),
      notes: [`mix: answer tokens/s of ${numRequests} requests of 16-512 tokens after a system prompt of ${systemLen}`],
    }),
  );
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine, reports }, null, 2)}\n`);
process.exit(0); // the addon keeps a handle open
