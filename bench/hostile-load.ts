// Does a server under attack still serve? Three runs against `pagoda serve` in a process of its own, as markdown for
// docs/laboratory/serving-under-load.md:
//   streams   so many at once, a third of them cut at random moments
//   quiet     good clients alone
//   hostile   the same good clients beside hostile ones
// Good answers are compared with the text that their request has alone. Exits with 1 where something was wrong.
//   node dist/bench/hostile-load.js [--seconds 60 --streams 1000 --good 20 --hostile 20 --model DIR --attacks "wrong types,many samples"]

import { spawn } from "node:child_process";
import { once, setMaxListeners } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { seeded } from "../test/support/byte-matcher.js";
import { GoodRecord, goodClient, goodRequest, textsAlone, type Waits } from "./load/good-clients.js";
import { numFaults, type Tally } from "./load/hostile-clients.js";
import { hostileThread } from "./load/hostile-thread.js";
import { ownAddress, streamChat } from "./load/stream-chat.js";

const MAX_RATIO = 3; // of the good clients' first token at p99, hostile to quiet

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    streams: { type: "string", default: "1000" },
    good: { type: "string", default: "20" },
    hostile: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    attacks: { type: "string" },
    model: { type: "string" },
  },
});
const [seconds, numStreams, numGood, numHostile] = [values.seconds, values.streams, values.good, values.hostile].map(
  Number,
) as [number, number, number, number];
const random = seeded(Number(values.seed)); // the same clients do the same each time
const problems: string[] = [];

function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!;
}

const firstTokens = (waits: readonly Waits[]): number[] => waits.map(({ total }) => total);

/** Median and p99 of the first token, and of each part of it. */
function waitsRow(name: string, waits: readonly Waits[]): string {
  const cell = (part: keyof Waits): string => {
    const values = waits.map((wait) => wait[part]);
    return `${quantile(values, 0.5).toFixed(0)} / ${quantile(values, 0.99).toFixed(0)}`;
  };
  const parts = (["total", "http", "accept", "queue", "compute"] as const).map(cell);
  return `| ${name} | ${waits.length} | ${parts.join(" | ")} |`;
}

/** Nobody runs or waits, and every page is free or cached. */
async function isEmpty(url: string): Promise<boolean> {
  const { engine } = (await (await fetch(`${url}/api/stats`)).json()) as { engine: Record<string, number> };
  return engine.running! + engine.waiting! + engine.pagesUsed! === 0;
}

async function untilEmpty(url: string, after: string): Promise<void> {
  const endMs = performance.now() + 60_000;
  while (!(await isEmpty(url))) {
    if (performance.now() > endMs) {
      problems.push(`after ${after}, requests or pages are left in the engine`);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function streams(url: string, alone: readonly string[]): Promise<void> {
  const record = new GoodRecord(alone);
  let numCut = 0;
  await Promise.all(
    Array.from({ length: numStreams }, async (_, k) => {
      const i = k % alone.length;
      const leaveAfter = k % 3 === 0 ? Math.floor(random() * 6000) : undefined;
      const reply = await streamChat(url, goodRequest(i), { leaveAfter });
      if (leaveAfter === undefined || reply.isWhole) record.add(i, reply);
      else if (reply.status === 200 && alone[i]!.startsWith(reply.text)) numCut++;
      else problems.push(`cut stream ${k}: ${reply.status} ${reply.text}`);
    }),
  );
  await untilEmpty(url, "the streams");
  problems.push(...record.wrong);
  console.log(
    `${numStreams} streams at once, ${numCut} of them cut at random: ${record.wrong.length} of the others wrong or broken.\n`,
  );
}

async function timed(url: string, alone: readonly string[], attackers: number): Promise<[Waits[], Tally]> {
  const record = new GoodRecord(alone);
  const signal = AbortSignal.timeout(seconds * 1000);
  setMaxListeners(0, signal);
  const attacks = values.attacks?.split(",");
  const [tally] = await Promise.all([
    hostileThread({ url, seconds, count: attackers, seed: Number(values.seed), ...(attacks && { attacks }) }),
    ...Array.from({ length: numGood }, (_, i) =>
      goodClient(url, record, { random, signal, address: ownAddress(1, i) }),
    ),
  ]);
  await untilEmpty(url, attackers > 0 ? "the attack" : "the quiet run");
  problems.push(...record.wrong);
  return [record.waits, tally];
}

const bin = fileURLToPath(new URL("../../bin/pagoda.js", import.meta.url));
const args = [bin, "serve", "--port", "0", "--log-level", "silent"];
if (values.model !== undefined) args.push("--model", values.model);
const server = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
process.once("exit", () => server.kill("SIGKILL")); // whatever became of the run
const ended = once(server, "exit");
const url = await new Promise<string>((resolve, reject) => {
  let said = "";
  createInterface(server.stderr).on("line", (line) => {
    said += `${line}\n`;
    const found = /dashboard\s+(http:\S+)/.exec(line);
    if (found !== null) resolve(found[1]!);
  });
  void ended.then(([code]) => reject(new Error(`the server ended with ${code}: ${said}`)));
});

const alone = await textsAlone(url);
await streams(url, alone);
const [quiet] = await timed(url, alone, 0);
const [hostile, tally] = await timed(url, alone, numHostile);
console.log(`First tokens of ${numGood} good clients over ${seconds} s, median / p99 in ms, and where they waited:\n`);
console.log(
  "| good clients | answers | first token | HTTP thread | grammar | queue | prefill |\n|---|---|---|---|---|---|---|",
);
console.log(`${waitsRow("alone", quiet)}\n${waitsRow(`beside ${numHostile} hostile ones`, hostile)}\n`);
console.log("| hostile client | how its requests ended |\n|---|---|");
for (const [name, outcomes] of tally) {
  const ends = [...outcomes].map(([outcome, times]) => `${times} x ${outcome}`);
  console.log(`| ${name} | ${ends.join(", ")} |`);
}
const ratio = quantile(firstTokens(hostile), 0.99) / quantile(firstTokens(quiet), 0.99);
if (!(ratio <= MAX_RATIO))
  problems.push(`the first token at p99 came ${ratio.toFixed(1)} x as late as in the quiet run`);
if (numFaults(tally) > 0) problems.push(`${numFaults(tally)} answers of 5xx`);
console.log(`\nAt p99 ${ratio.toFixed(2)} x the quiet run; ${problems.length} problems.`);
for (const problem of problems.slice(0, 20)) console.error(problem);
server.kill("SIGTERM");
const [code] = await ended;
if (code !== 0) console.error(`the server ended with ${code}`);
process.exitCode = problems.length === 0 && code === 0 ? 0 : 1;
