// What choosing by prefix is worth at a scale that no test machine has: 200 replicas, a day's traffic, three ways to choose, each in a thread of
// its own.
//   node dist/bench/cluster-sim.js [--replicas 200 --rate 24 --hours 24 --pages 8000 --svg docs/images/cluster-sim]

import { writeFileSync, writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { renderTable } from "../src/cli/bench/table.js";
import { POLICIES } from "./cluster-sim/policies.js";
import { factsOf, type Hour, type SimulationOptions, simulate } from "./cluster-sim/simulation.js";
import { type Line, lineChart } from "./line-chart.js";

if (isMainThread) await main();
else runThread(workerData as Work);

interface Work {
  readonly options: SimulationOptions;
  readonly policy: string;
}

function runThread({ options, policy }: Work): void {
  const startMs = performance.now();
  const onHour = (hour: number): void => {
    // Not process.stderr: a thread's streams are written by its event loop, which does not turn before the day is over.
    writeSync(2, `${policy}: ${hour} h simulated in ${((performance.now() - startMs) / 1000).toFixed(0)} s\n`);
  };
  parentPort!.postMessage(simulate(options, POLICIES.get(policy)!, onHour));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      replicas: { type: "string", default: "200" },
      /** Requests in a second, over the day. */
      rate: { type: "string", default: "24" },
      hours: { type: "string", default: "24" },
      pages: { type: "string", default: "8000" },
      seed: { type: "string", default: "1" },
      /** Where plots go: NAME-hits.svg and so on. */
      svg: { type: "string" },
    },
  });
  const options: SimulationOptions = {
    numReplicas: Number(values.replicas),
    pagesPerReplica: Number(values.pages),
    seed: Number(values.seed),
    requestsPerSecond: Number(values.rate),
    dayMs: 3_600_000 * Number(values.hours),
  };
  const { numRequests, promptTokens, answerTokens, reusable } = factsOf(options);
  const lengths = (tokens: readonly number[]): string => `${at(tokens, 0.5)} at the median, ${mean(tokens)} on average`;
  process.stdout.write(
    `${numRequests} requests; prompt tokens: ${lengths(promptTokens)}; answer tokens: ${lengths(answerTokens)}; ${percent(reusable)} of the prompt tokens were there before\n`,
  );
  const days = await Promise.all(
    [...POLICIES.keys()].map(async (policy) => ({ policy, hours: await inThread(options, policy) })),
  );
  process.stdout.write(
    renderTable({
      caption: `${values.replicas} replicas of ${values.pages} pages, ${values.rate} requests/s over ${values.hours} h`,
      head: [
        ...["choice", "requests", "hit rate", "computed Mtok", "TTFT p50 s", "p99 s"],
        ...["good", "good in the worst hour", "refused"],
      ],
      rows: days.map(({ policy, hours }) => [policy, ...rowOf(hours)]),
    }),
  );
  if (values.svg === undefined) return;
  const plot = (name: string, title: string, read: (hour: Hour) => number): void => {
    const lines: Line[] = days.map(({ policy, hours }) => ({
      label: policy,
      points: hours.map((hour, i) => ({ x: i, y: read(hour) })),
    }));
    writeFileSync(`${values.svg}-${name}.svg`, lineChart(title, "hour of the day", lines));
  };
  plot("hits", "Prompt tokens found in the cache, %", (hour) => (100 * hour.cachedTokens) / hour.promptTokens);
  plot("ttft", "Time to first token, 99th percentile, s", ({ ttftMs }) => at(ttftMs, 0.99) / 1000);
  plot("goodput", "Good requests in a second", ({ numGood }) => numGood / 3600);
}

async function inThread(options: SimulationOptions, policy: string): Promise<readonly Hour[]> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { options, policy } satisfies Work });
  const hours = await new Promise<readonly Hour[]>((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
  for (const { ttftMs } of hours) ttftMs.sort((a, b) => a - b);
  return hours;
}

function rowOf(hours: readonly Hour[]): (string | number)[] {
  const sum = (read: (hour: Hour) => number): number => hours.reduce((total, hour) => total + read(hour), 0);
  const [asked, prompt] = [sum(({ numAsked }) => numAsked), sum(({ promptTokens }) => promptTokens)];
  const computed = prompt - sum(({ cachedTokens }) => cachedTokens);
  const ttftMs = hours.flatMap((hour) => hour.ttftMs).sort((a, b) => a - b);
  return [
    asked,
    percent(1 - computed / prompt),
    computed / 1e6,
    at(ttftMs, 0.5) / 1000,
    at(ttftMs, 0.99) / 1000,
    percent(sum(({ numGood }) => numGood) / asked),
    percent(Math.min(...hours.map(({ numGood, numAsked }) => numGood / numAsked))),
    percent(sum(({ numRefused }) => numRefused) / asked),
  ];
}

function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
}

function mean(numbers: readonly number[]): number {
  return Math.round(numbers.reduce((sum, number) => sum + number, 0) / numbers.length);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
