// `pagoda bench speculation`: the same requests with guesses and without, in turns on one engine. Says how many guesses came true, how many tokens a
// step gave, and what that is worth in time and in processor time. Answers are compared: they must be the same.

import { readFileSync } from "node:fs";
import type { OptionTable } from "../../config/options.js";
import { errorFor } from "../../core/errors.js";
import { SPECULATION_METHODS, type SpeculationMethod } from "../../core/speculation.js";
import type { ChatMessage } from "../../engine/chat-types.js";
import { createEngine } from "../../engine/client/engine.js";
import type { Engine } from "../../engine/types.js";
import { RUN_OPTIONS } from "../sampling-options.js";
import { type Bench, splitValues } from "./benchmark.js";
import { BenchProgress, withLoadProgress } from "./progress.js";
import { TRACE_OPTIONS, type TraceFlags, traceShapeOf } from "./run-trace.js";
import { median } from "./statistics.js";
import { makeTrace, promptNumbers } from "./trace.js";

const OWN = {
  ...TRACE_OPTIONS,
  requests: { ...TRACE_OPTIONS.requests, default: 8 },
  text: {
    type: "string",
    default: null,
    defaultText: "a random trace",
    help: "file of prompts: a text, or JSON lines of { prompt } or { messages } with an optional max_tokens",
  },
  methods: { type: "list", default: ["ngram", "suffix"], help: "methods, each against none" },
  maxTokens: { type: "integer", min: 1, default: 256, help: "longest answer to a text" },
  temperature: { type: "number", min: 0, max: 5, default: 0, help: "of all answers" },
  concurrency: { type: "integer", min: 1, default: 1, help: "requests at a time" },
  repeat: { type: "integer", min: 1, default: 3, help: "runs of each method, in turns with none; medians are shown" },
} as const satisfies OptionTable;

interface Own extends TraceFlags {
  readonly text: string | null;
  readonly methods: readonly SpeculationMethod[];
  readonly maxTokens: number;
  readonly temperature: number;
  readonly concurrency: number;
  readonly repeat: number;
}

const WARM_TOKENS = 8;

interface Job {
  readonly prompt: string | readonly number[] | readonly ChatMessage[];
  readonly maxTokens: number;
  readonly ignoreEos: boolean;
}

/** What one run of all requests took, from the first token of each on: prompts cost the same either way. */
interface MethodRun {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly decodeMs: number;
  readonly tokens: number;
  readonly steps: number;
  readonly drafts: number;
  readonly draftTokens: number;
  readonly acceptedTokens: number;
  readonly acceptedPerPosition: readonly number[];
  readonly answers: readonly (readonly number[])[];
}

interface MethodReport extends Omit<MethodRun, "answers"> {
  readonly method: SpeculationMethod;
  readonly acceptance: number;
  readonly tokensPerStep: number;
  readonly tokensPerSecond: number;
  /** Of whole requests, of decoding alone, and of processor time: without guesses / with. */
  readonly speedUp: number;
  readonly decodeSpeedUp: number;
  readonly cpuSpeedUp: number;
  readonly isEqual: boolean;
  /** The first and the last of these, round by round. */
  readonly speedUps: readonly number[];
  readonly cpuSpeedUps: readonly number[];
}

export const speculationBench: Bench = {
  positionals: [],
  options: { ...OWN, ...RUN_OPTIONS },
  async run(values) {
    const { own, engine: options } = splitValues<Own>(OWN, values);
    for (const method of own.methods) checkMethod(method);
    const maxQueue = Math.max(options.maxQueue ?? 0, own.requests);
    await using engine = await withLoadProgress((onProgress) => createEngine({ ...options, maxQueue, onProgress }));
    const jobs = own.text === null ? jobsOfTrace(own, engine) : jobsOfText(own.text, own.maxTokens);
    const methods = ["off" as const, ...own.methods];
    const progress = new BenchProgress("speculation", (1 + own.repeat * methods.length) * jobs.length);
    const runs = new Map<SpeculationMethod, MethodRun[]>(methods.map((method) => [method, []]));
    await runJobs(engine, jobs.map(shortened), own, "off", "warm", progress);
    for (let i = 0; i < own.repeat; i++) {
      for (const method of methods)
        runs.get(method)!.push(await runJobs(engine, jobs, own, method, `${method}-${i}`, progress));
    }
    progress.end();
    const plain = runs.get("off")!;
    const reports = methods.map((method) => reportOf(method, runs.get(method)!, plain));
    const { name, device } = engine.model;
    return {
      report: { model: name, device, asked: own, methods: reports },
      tables: [
        tableOf(`${name} on ${device}: ${jobs.length} requests, ${own.concurrency} at a time`, reports, own.repeat),
      ],
      charts: [
        {
          title: "Speed-up",
          unit: "x",
          groups: reports.map((each) => ({ label: each.method, bars: [{ name: "", value: each.speedUp }] })),
        },
      ],
      exitCode: reports.every(({ isEqual }) => isEqual) ? 0 : 1,
    };
  },
};

/** For a first run, which nobody measures. */
function shortened(job: Job): Job {
  return { ...job, maxTokens: Math.min(job.maxTokens, WARM_TOKENS) };
}

function checkMethod(method: string): void {
  const known: readonly string[] = SPECULATION_METHODS.filter((each) => each !== "off");
  if (known.includes(method)) return;
  throw errorFor("invalid_option", { param: "--methods", value: method, expected: `of ${known.join(", ")}` });
}

function jobsOfTrace(own: Own, { model }: Engine): Job[] {
  return makeTrace(traceShapeOf(own)).map(({ promptLen, outputLen }, i) => ({
    prompt: promptNumbers(own.seed, i, promptLen, own.sharedPrefix, model.vocabSize),
    maxTokens: outputLen,
    ignoreEos: true,
  }));
}

/** A file of JSON lines, or one prompt. */
function jobsOfText(file: string, maxTokens: number): Job[] {
  const text = readFileSync(file, "utf8");
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (!lines.every((line) => line.startsWith("{"))) return [{ prompt: text, maxTokens, ignoreEos: false }];
  return lines.map((line) => {
    const { prompt, messages, max_tokens = maxTokens } = JSON.parse(line);
    if (typeof prompt === "string" || Array.isArray(messages))
      return { prompt: prompt ?? messages, maxTokens: max_tokens, ignoreEos: false };
    const expected = 'a text, or lines such as {"prompt": "..."} or {"messages": [...]}';
    throw errorFor("invalid_option", { param: "--text", value: file, expected });
  });
}

/** `salt`: no run finds another's prompts, and no method another's answers. */
async function runJobs(
  engine: Engine,
  jobs: readonly Job[],
  { temperature, concurrency, seed }: Own,
  method: SpeculationMethod,
  salt: string,
  progress: BenchProgress,
): Promise<MethodRun> {
  const before = await engine.stats();
  const answers: (readonly number[])[] = [];
  let [tokens, decodeMs, next] = [0, 0, 0];
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  const work = async (): Promise<void> => {
    while (next < jobs.length) {
      const index = next++;
      const { prompt, maxTokens, ignoreEos } = jobs[index]!;
      const options = { maxTokens, ignoreEos, temperature, seed, salt, speculative: method };
      const { samples, trace } = await engine.generate(prompt, options);
      answers[index] = samples[0]!.tokenIds;
      tokens += trace.completionTokens;
      decodeMs += trace.totalMs - trace.timeToFirstTokenMs;
      progress.advance();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  const wallMs = performance.now() - startMs;
  const used = process.cpuUsage(cpu);
  const after = await engine.stats();
  const [from, to] = [before.speculation, after.speculation];
  return {
    ...{ wallMs, cpuMs: (used.user + used.system) / 1000, decodeMs, tokens, answers },
    steps: after.steps - before.steps,
    drafts: to.drafts - from.drafts,
    draftTokens: to.draftTokens - from.draftTokens,
    acceptedTokens: to.acceptedTokens - from.acceptedTokens,
    acceptedPerPosition: to.acceptedPerPosition.map((count, i) => count - from.acceptedPerPosition[i]!),
  };
}

function reportOf(method: SpeculationMethod, runs: readonly MethodRun[], plain: readonly MethodRun[]): MethodReport {
  const mid = (of: (run: MethodRun) => number): number => median(runs.map(of));
  const ratios = (of: (run: MethodRun) => number): number[] => runs.map((run, i) => of(plain[i]!) / of(run));
  const draftTokens = mid((run) => run.draftTokens);
  const acceptedTokens = mid((run) => run.acceptedTokens);
  return {
    method,
    wallMs: mid((run) => run.wallMs),
    cpuMs: mid((run) => run.cpuMs),
    decodeMs: mid((run) => run.decodeMs),
    tokens: mid((run) => run.tokens),
    steps: mid((run) => run.steps),
    drafts: mid((run) => run.drafts),
    draftTokens,
    acceptedTokens,
    acceptedPerPosition: runs[0]!.acceptedPerPosition,
    acceptance: draftTokens === 0 ? 0 : acceptedTokens / draftTokens,
    tokensPerStep: mid((run) => run.tokens / run.steps),
    tokensPerSecond: mid((run) => (1000 * run.tokens) / run.wallMs),
    speedUp: median(ratios((run) => run.wallMs)),
    decodeSpeedUp: median(ratios((run) => run.decodeMs)),
    cpuSpeedUp: median(ratios((run) => run.cpuMs)),
    isEqual: runs.every((run) => JSON.stringify(run.answers) === JSON.stringify(plain[0]!.answers)),
    speedUps: ratios((run) => run.wallMs),
    cpuSpeedUps: ratios((run) => run.cpuMs),
  };
}

function tableOf(caption: string, reports: readonly MethodReport[], repeat: number) {
  const row = (name: string, of: (report: MethodReport) => string | number) => [name, ...reports.map(of)];
  return {
    caption: `${caption}; medians of ${repeat}`,
    head: ["", ...reports.map(({ method }) => method)],
    rows: [
      row("answer tokens/s", (r) => r.tokensPerSecond),
      row("speed-up, whole requests", (r) => r.speedUp),
      row("speed-up, after first tokens", (r) => r.decodeSpeedUp),
      row("speed-up, processor time", (r) => r.cpuSpeedUp),
      row("tokens per step", (r) => r.tokensPerStep),
      row("guesses", (r) => r.draftTokens),
      row("guesses right, %", (r) => 100 * r.acceptance),
      row("same answers", (r) => (r.isEqual ? "yes" : "NO")),
    ],
    notes: ["Each run of a method is divided by the run without guesses of the same round."],
  };
}
