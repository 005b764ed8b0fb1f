// Runs Pagoda beside others on the same GGUF files, in turns, and prints medians and ratios.
//   node compare.mjs --model FILE.gguf [--model ...] [--llama-cpp DIR] [--node-llama-cpp] [--before DIR] [--threads 2]
//                    [--repeat 5] [--steps 32] [--kinds prefill,decode,mix] [--rows 1,8,32] [--requests 32] [--system 128]
//                    [--parallel 32] [--seed 1] [--json FILE]

import { writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine, machineFacts } from "../../dist/src/cli/bench/machine.js";
import { median } from "../../dist/src/cli/bench/statistics.js";
import { renderTable } from "../../dist/src/cli/bench/table.js";
import { llamaCpp, openLlamaCpp } from "./llama-cpp.mjs";
import { openPagoda } from "./pagoda.mjs";
import { PREFILL_LEN, Prompts, servingMix } from "./workload.mjs";

const { values } = parseArgs({
  options: {
    model: { type: "string", multiple: true },
    "llama-cpp": { type: "string" },
    "node-llama-cpp": { type: "boolean", default: false },
    before: { type: "string" },
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

/** llama.cpp with the settings that are fastest here, judged by a prefill and a short decode of 8. */
async function fastest(make, prompts) {
  let best = null;
  for (let count = 1; count <= threads; count *= 2) {
    for (const flashAttention of [false, true]) {
      const settings = { threads: count, flashAttention };
      const peer = make(settings);
      progress(`${peer.name} with ${count} threads, flash attention ${flashAttention}`);
      const decode = await peer.openDecode(prompts, 8, 16);
      const seconds = (await peer.prefill(prompts, PREFILL_LEN)) + (await decode.run());
      await decode.close();
      if (best === null || seconds < best.seconds) best = { seconds, settings, peer };
    }
  }
  return best;
}

/** Everyone that was asked for, Pagoda first. */
async function openPeers(model) {
  const pagoda = await openPagoda({ model, threads });
  const prompts = new Prompts(seed, pagoda.vocabSize);
  const peers = [pagoda];
  const closers = [() => pagoda.close()];
  let settings = null;
  if (values.before !== undefined) {
    const before = await openPagoda({ model, threads, root: values.before, name: "before" });
    peers.push(before);
    closers.push(() => before.close());
  }
  if (values["llama-cpp"] !== undefined) {
    const best = await fastest((each) => llamaCpp(openLlamaCpp(values["llama-cpp"], model), each), prompts);
    peers.push(best.peer);
    settings = best.settings;
  }
  if (values["node-llama-cpp"]) {
    const { nodeLlamaCpp, openLlama } = await import("./node-llama-cpp.mjs");
    const llama = await openLlama(model);
    const best = await fastest((each) => nodeLlamaCpp(llama, each), prompts);
    peers.push(best.peer);
    settings ??= best.settings;
    closers.push(() => llama.close());
  }
  return { peers, prompts, settings, close: () => Promise.all(closers.map((close) => close())) };
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
  const { peers, prompts, settings, close } = await openPeers(model);
  const [pagoda] = peers;
  const requests = servingMix({ seed, count: numRequests, systemLen, vocabSize: pagoda.vocabSize });
  const results = [];
  for (const work of workloads(requests, prompts)) results.push(await measure(work, peers, basename(model)));
  progress("");
  await close();
  return {
    model: basename(model),
    pagoda: { device: pagoda.description, threads },
    peers: peers.map((peer) => peer.name),
    llama: settings,
    results,
    loadAfter: loadavg()[0],
  };
}

const machine = machineFacts();
console.log(`${describeMachine(machine)}\n`);
const reports = [];
for (const model of values.model) {
  const report = await compare(model);
  reports.push(report);
  const others = report.peers.slice(1);
  const { llama } = report;
  console.log(
    renderTable({
      caption:
        `${report.model}: tokens/s, medians of ${repeat}; Pagoda ${threads} threads` +
        (llama === null
          ? ""
          : `, llama.cpp ${llama.threads} threads, flash attention ${llama.flashAttention ? "on" : "off"}`),
      head: ["", ...report.peers, ...others.map((name) => `x ${name}`)],
      rows: report.results.map(({ name, rates }) => {
        const mids = report.peers.map((peer) => (rates[peer].length === 0 ? Number.NaN : median(rates[peer])));
        return [name, ...mids, ...mids.slice(1).map((theirs) => mids[0] / theirs)];
      }),
      notes: [`mix: answer tokens/s of ${numRequests} requests of 16-512 tokens after a system prompt of ${systemLen}`],
    }),
  );
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine, reports }, null, 2)}\n`);
process.exit(0); // node-llama-cpp's addon keeps a handle open
