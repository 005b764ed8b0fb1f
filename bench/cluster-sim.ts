// What choosing by prefix is worth at a scale that no test machine has: 200 replicas, a day's traffic, three ways to choose.
//   node dist/bench/cluster-sim.js [--replicas 200 --rate 0.5 --hour-seconds 20 --pages 8000 --svg docs/images/cluster-sim.svg]

import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { renderTable } from "../src/cli/bench/table.js";
import { type Candidate, choose, isFull, type Policy } from "../src/cluster/choose.js";
import { simulate } from "./cluster-sim/simulation.js";
import { lineChart } from "./line-chart.js";

function roundRobin(): Policy {
  let turn = 0;
  return (candidates) => candidates[turn++ % candidates.length]!;
}

/** The fewest calls; among equals, by chance. */
const leastLoad: Policy = (candidates, _, random) => {
  const fewest = Math.min(...candidates.map(({ calls }) => calls));
  const idlest: Candidate[] = candidates.filter((one) => one.calls === fewest && !isFull(one));
  return idlest[Math.floor(random * idlest.length)] ?? null;
};

const { values } = parseArgs({
  options: {
    replicas: { type: "string", default: "200" },
    /** Conversations in a second and replica. */
    rate: { type: "string", default: "0.5" },
    "hour-seconds": { type: "string", default: "20" },
    pages: { type: "string", default: "8000" },
    seed: { type: "string", default: "1" },
    svg: { type: "string" },
  },
});
const numReplicas = Number(values.replicas);
const dayMs = 24_000 * Number(values["hour-seconds"]);
const options = {
  numReplicas,
  pagesPerReplica: Number(values.pages),
  seed: Number(values.seed),
  numTemplates: 500,
  conversationsPerSecond: Number(values.rate) * numReplicas,
  dayMs,
};
const at = (sorted: readonly number[], share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
const rows: (string | number)[][] = [];
const lines: { label: string; points: { x: number; y: number }[] }[] = [];
for (const [name, policy] of [
  ["round robin", roundRobin()],
  ["least load", leastLoad],
  ["prefix-aware", choose],
] as const) {
  const { numRequests, promptTokens, cachedTokens, ttftMs, goodput, hitRateByHour } = simulate(options, policy);
  rows.push([
    name,
    numRequests,
    `${((100 * cachedTokens) / promptTokens).toFixed(1)} %`,
    (promptTokens - cachedTokens) / 1e6,
    at(ttftMs, 0.5),
    at(ttftMs, 0.99),
    goodput,
  ]);
  lines.push({ label: name, points: hitRateByHour.map((rate, hour) => ({ x: hour, y: 100 * rate })) });
}
process.stdout.write(
  renderTable({
    caption: `${numReplicas} replicas of ${options.pagesPerReplica} pages, ${options.conversationsPerSecond} conversations/s, a day of ${dayMs / 1000} s`,
    head: ["choice", "requests", "hit rate", "computed Mtok", "TTFT p50 ms", "p99 ms", "good req/s"],
    rows,
  }),
);
if (values.svg !== undefined)
  writeFileSync(values.svg, lineChart("Prompt tokens found in the cache, %", "hour of the simulated day", lines));
