// `pagoda bench serve URL`: sends requests to an OpenAI-compatible server at a given rate and times what its users see: the first
// token, the gaps between tokens, and how many requests met their limits (goodput).

import type { OptionTable } from "../../config/options.js";
import { errorFor } from "../../core/errors.js";
import { baseOf, firstModel, type ServerTarget, type StreamedAnswer, streamAnswer } from "../server/openai-client.js";
import { type Bench, objectOf, splitValues } from "./benchmark.js";
import { BenchProgress } from "./progress.js";
import { ARRIVAL_OPTIONS, TRACE_OPTIONS, type TraceFlags, traceShapeOf } from "./run-trace.js";
import { type Summary, summaryOf } from "./statistics.js";
import type { Table } from "./table.js";
import { makeTrace, promptNumbers } from "./trace.js";

const OWN = {
  ...TRACE_OPTIONS,
  inputLen: { ...TRACE_OPTIONS.inputLen, help: "prompt lengths in words, each about a token: N or N-M" },
  sharedPrefix: { ...TRACE_OPTIONS.sharedPrefix, help: "words that all prompts begin with" },
  ...ARRIVAL_OPTIONS,
  endpoint: { type: "choice", choices: ["completions", "chat"], default: "completions", help: "which route to call" },
  model: { type: "string", default: null, defaultText: "the first one listed", help: "model to name in requests" },
  apiKey: { type: "string", default: null, defaultText: "none", help: "bearer token to send" },
  ignoreEos: { type: "boolean", default: false, help: "send ignore_eos, for servers that know it" },
  body: {
    type: "string",
    default: "{}",
    help: 'what requests ask for beside it, as JSON: {"temperature":1,"top_k":20}',
  },
  vocabSize: {
    type: "integer",
    min: 0,
    default: 0,
    defaultText: "words",
    help: "prompts are token ids below this, of exactly their length and those of bench throughput; completions only",
  },
  maxTtftMs: { type: "number", min: 0, default: 1000, help: "goodput: latest first token" },
  maxTpotMs: { type: "number", min: 0, default: 100, help: "goodput: largest mean time per token after it" },
} as const satisfies OptionTable;

interface Own extends TraceFlags {
  readonly rate: number;
  readonly arrival: "poisson" | "fixed";
  readonly endpoint: "completions" | "chat";
  readonly model: string | null;
  readonly apiKey: string | null;
  readonly ignoreEos: boolean;
  readonly body: string;
  readonly vocabSize: number;
  readonly maxTtftMs: number;
  readonly maxTpotMs: number;
}

// Short common words: nearly every tokenizer has each of them as one token.
const WORDS = (
  "the of and to in is it you that he was for on are with as his they be at one have this from or had by hot but some what " +
  "there we can out other were all your when up use word how said an each she which do their time if will way about many then"
).split(" ");

export const serveBench: Bench = {
  positionals: ["URL"],
  options: OWN,
  async run(values, [url]) {
    const { own } = splitValues<Own>(OWN, values);
    const extra = { ...(own.ignoreEos ? { ignore_eos: true } : {}), ...objectOf("--body", own.body) };
    const target = await targetOf(url!, own);
    const trace = makeTrace(traceShapeOf(own, own));
    const progress = new BenchProgress("serve", trace.length);
    const answers: StreamedAnswer[] = [];
    const failures: string[] = [];
    const start = performance.now();
    await Promise.all(
      trace.map(async ({ promptLen, outputLen, arrivalMs }, i) => {
        if (arrivalMs > 0) await new Promise((resolve) => setTimeout(resolve, arrivalMs));
        try {
          const numbers = promptNumbers(own.seed, i, promptLen, own.sharedPrefix, own.vocabSize || WORDS.length);
          const prompt = own.vocabSize > 0 ? numbers : numbers.map((word) => WORDS[word]).join(" ");
          answers.push(await streamAnswer(target, prompt, outputLen, extra));
        } catch (error) {
          failures.push((error as Error).message);
        }
        progress.advance();
      }),
    );
    progress.end();
    const report = reportOf(answers, failures, performance.now() - start, own);
    const { apiKey: _secret, ...conditions } = own;
    return {
      report: { url: target.base, model: target.model, options: conditions, ...report },
      tables: tablesOf(target, own, report),
      charts: [
        {
          title: "Latency",
          unit: "ms",
          groups: (["ttftMs", "itlMs", "tpotMs"] as const).map((key) => ({
            label: LABELS[key],
            bars: (["p50", "p90", "p99"] as const).map((p) => ({ name: p, value: report[key][p] })),
          })),
        },
      ],
      exitCode: failures.length > 0 ? 1 : 0,
    };
  },
};

const LABELS = { ttftMs: "first token", itlMs: "between tokens", tpotMs: "mean per token", totalMs: "whole answer" };

async function targetOf(url: string, { endpoint, model, apiKey }: Own): Promise<ServerTarget> {
  try {
    const base = baseOf(url);
    return { base, endpoint, model: model ?? (await firstModel(base, apiKey)), apiKey };
  } catch (error) {
    const cause = (error as { cause?: Error }).cause?.message ?? (error as Error).message;
    const expected = `the address of an OpenAI-compatible server that is up, such as http://localhost:8000 (${cause})`;
    throw errorFor("invalid_option", { param: "URL", value: url, expected });
  }
}

interface ServeReport {
  readonly wallMs: number;
  readonly completed: number;
  readonly failed: number;
  readonly firstFailure: string | null;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly totalTokensPerSecond: number;
  readonly ttftMs: Summary;
  /** Gaps between pieces of text; a piece may carry several tokens. */
  readonly itlMs: Summary;
  /** (whole answer - first token) / (tokens - 1). */
  readonly tpotMs: Summary;
  readonly totalMs: Summary;
  readonly goodput: { readonly requests: number; readonly share: number; readonly requestsPerSecond: number };
}

function reportOf(
  answers: readonly StreamedAnswer[],
  failures: readonly string[],
  wallMs: number,
  own: Own,
): ServeReport {
  const seconds = wallMs / 1000;
  const requests = answers.map((answer) => {
    const { piecesMs, totalMs } = answer;
    const tokens = answer.outputTokens ?? piecesMs.length;
    const ttftMs = piecesMs[0] ?? totalMs;
    const lastMs = piecesMs.at(-1) ?? totalMs;
    return { tokens, ttftMs, totalMs, tpotMs: tokens > 1 ? (lastMs - ttftMs) / (tokens - 1) : null };
  });
  const good = requests.filter((r) => r.ttftMs <= own.maxTtftMs && (r.tpotMs ?? 0) <= own.maxTpotMs).length;
  const promptTokens = answers.reduce((sum, answer) => sum + (answer.promptTokens ?? 0), 0);
  const outputTokens = requests.reduce((sum, r) => sum + r.tokens, 0);
  return {
    wallMs,
    completed: answers.length,
    failed: failures.length,
    firstFailure: failures[0] ?? null,
    promptTokens,
    outputTokens,
    requestsPerSecond: answers.length / seconds,
    outputTokensPerSecond: outputTokens / seconds,
    totalTokensPerSecond: (promptTokens + outputTokens) / seconds,
    ttftMs: summaryOf(requests.map((r) => r.ttftMs)),
    itlMs: summaryOf(answers.flatMap(({ piecesMs }) => piecesMs.slice(1).map((ms, i) => ms - piecesMs[i]!))),
    tpotMs: summaryOf(requests.flatMap((r) => r.tpotMs ?? [])),
    totalMs: summaryOf(requests.map((r) => r.totalMs)),
    goodput: { requests: good, share: good / own.requests, requestsPerSecond: good / seconds },
  };
}

function tablesOf(target: ServerTarget, own: Own, report: ServeReport): Table[] {
  const { goodput } = report;
  const arrivals = own.rate === 0 ? "all at once" : `${own.rate} requests/s (${own.arrival})`;
  const row = (key: keyof typeof LABELS) => {
    const { mean, p50, p90, p99 } = report[key];
    return [LABELS[key], mean, p50, p90, p99];
  };
  return [
    {
      caption: `${target.model} at ${target.base}: ${own.requests} requests, ${arrivals}`,
      head: ["", "all"],
      rows: [
        ["completed", report.completed],
        ["failed", report.failed],
        ["seconds", report.wallMs / 1000],
        ["requests/s", report.requestsPerSecond],
        ["answer tokens/s", report.outputTokensPerSecond],
        ["all tokens/s", report.totalTokensPerSecond],
        ["goodput, requests/s", goodput.requestsPerSecond],
        ["goodput, % of requests", 100 * goodput.share],
      ],
      notes: [
        `goodput: first token within ${own.maxTtftMs} ms, and at most ${own.maxTpotMs} ms per token after it`,
        ...(report.firstFailure === null ? [] : [`first failure: ${report.firstFailure}`]),
        "",
      ],
    },
    {
      caption: "Milliseconds",
      head: ["", "mean", "p50", "p90", "p99"],
      rows: [row("ttftMs"), row("itlMs"), row("tpotMs"), row("totalMs")],
    },
  ];
}
