// `pagoda run-batch FILE`: answers a file of requests without a server, by the server's own routes: JSON lines in OpenAI's batch format in,
// one line of output each. Run again, it goes on where it was stopped.

import { open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { OptionTable } from "../config/options.js";
import { SERVER_OPTIONS, serverConfig } from "../config/server-config.js";
import { errorFor } from "../core/errors.js";
import { resultText } from "../server/batch/batch-line.js";
import { hasHelped, parseFlags, type Usage } from "./args.js";
import { engineOptionsOf, RUN_OPTIONS } from "./sampling-options.js";
import { pick, servedName } from "./service.js";
import { startWithProgress } from "./start-engine.js";
import { dim } from "./terminal.js";

const { maxConcurrent, maxBodyMb, servedModelName, toolParser, reasoningParser } = SERVER_OPTIONS;
const SERVED = { maxConcurrent, maxBodyMb, servedModelName, toolParser, reasoningParser };

export const RUN_BATCH_OPTIONS = {
  output: {
    type: "string",
    short: "o",
    default: null,
    defaultText: "FILE with .out.jsonl at its end",
    help: "file for the results; lines that have one are not asked again",
  },
  ...SERVED,
  ...RUN_OPTIONS,
} as const satisfies OptionTable;

const USAGE: Usage = {
  line: "run-batch FILE [options]",
  about: `Answers the requests of a file, a JSON line each: {"custom_id", "method": "POST", "url", "body"}, as for OpenAI's and vLLM's batches.`,
  examples: ["pagoda run-batch questions.jsonl --model Qwen/Qwen3-0.6B --output answers.jsonl"],
  common: ["output", "model", "device", "quantize", "maxContext", "kvMemoryMb", "maxConcurrent", "servedModelName"],
  groups: { Requests: SERVED, Engine: RUN_OPTIONS },
  words: { least: 1, most: 1 },
};

const SHOW_MS = 500;

export async function runBatchCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(RUN_BATCH_OPTIONS, args);
  if (hasHelped(RUN_BATCH_OPTIONS, USAGE, parsed)) return 0;
  const { values, positionals } = parsed;
  const file = positionals[0]!;
  const output = (values.output as string | undefined) ?? `${file.replace(/\.jsonl$/, "")}.out.jsonl`;
  const wrong = (reason: string): Error => errorFor("wrong_usage", { reason, usage: USAGE.line });
  if (!((await stat(file).catch(() => null))?.isFile() ?? false)) throw wrong(`There is no file ${file}.`);
  if (resolve(file) === resolve(output)) throw wrong("The output would take the place of the input.");
  const [{ checkLines, pending }, { answeredIn, runLines }] = await Promise.all([
    import("../server/batch/batches.js"),
    import("../server/batch/run-lines.js"),
  ]);
  const stop = new AbortController();
  const { total, faults } = await checkLines(file, null, stop.signal);
  const [fault] = faults;
  if (fault !== undefined) throw wrong(`Line ${fault.line} of ${file}: ${fault.message}`);
  const answered = await answeredIn(output);
  const counts = { good: 0, bad: 0, before: answered.size };
  const say = (): string =>
    `${counts.good + counts.bad + counts.before} of ${total}` +
    `${counts.before === 0 ? "" : ` (${counts.before} from before)`}${counts.bad === 0 ? "" : `, ${counts.bad} failed`}`;
  if (answered.size < total) await run();
  process.stderr.write(`${dim(say())}\n${output}\n`);
  if (stop.signal.aborted) return 130;
  return counts.bad === 0 ? 0 : 1;

  async function run(): Promise<void> {
    const options = engineOptionsOf(values);
    await using engine = await startWithProgress(options);
    const [{ WebService }, { askLine }, { Gate }] = await Promise.all([
      import("../server/web-service.js"),
      import("../server/batch/ask-line.js"),
      import("../server/http/gate.js"),
    ]);
    const asked = pick(values, SERVED);
    const names = asked.servedModelName ?? (options.model === undefined ? [] : [servedName(options.model)]);
    const config = serverConfig({ ...asked, servedModelName: names, logLevel: "error" });
    const service = new WebService(engine, config);
    const tenant = service.context.keys.tenantOf(null)!;
    const results = await open(output, "a");
    const onSignal = (): void => stop.abort();
    process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
    const shown = process.stderr.isTTY ? setInterval(() => process.stderr.write(`\r${say()}`), SHOW_MS) : undefined;
    try {
      await runLines(
        pending(file, null, (id) => answered.has(id)),
        {
          ask: (line, signal) => askLine(service.app, line, tenant, signal),
          gate: new Gate({ maxConcurrent: config.maxConcurrent, maxQueued: Number.POSITIVE_INFINITY }),
          signal: stop.signal,
          take: async (result) => {
            await results.appendFile(resultText(result));
            counts[result.status < 300 ? "good" : "bad"]++;
          },
        },
      );
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      clearInterval(shown);
      process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
      await results.close();
      await service.drain(0);
    }
  }
}
