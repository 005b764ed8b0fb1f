// `pagoda chat`: a conversation in the terminal. Every turn sends the whole conversation; the prefix trie makes that cheap, and
// the line under each answer shows how much of it was cached.

import { createInterface } from "node:readline/promises";
import type { OptionTable } from "../config/options.js";
import { createEngine } from "../engine/engine.js";
import type { ChatMessage, Engine, GenerateOptions } from "../engine/types.js";
import { helpOf, parseFlags } from "./args.js";
import { engineOptionsOf, RUN_OPTIONS, SAMPLING_OPTIONS, samplingOf } from "./sampling-options.js";
import { bold, dim, loadProgress } from "./terminal.js";

const OPTIONS = {
  system: { type: "string", default: null, defaultText: "none", help: "system message" },
  ...SAMPLING_OPTIONS,
  ...RUN_OPTIONS,
} as const satisfies OptionTable;

const HELP = `/help    this text
/reset   forget the conversation
/system TEXT  set the system message and start anew
/stats   what the engine has done so far
/exit    leave (or Ctrl-D); Ctrl-C stops an answer
`;

export async function chatCommand(args: readonly string[]): Promise<number> {
  const { values, positionals, wantsHelp } = parseFlags(OPTIONS, args);
  if (wantsHelp || positionals.length > 0) {
    process.stdout.write(`Usage: pagoda chat [options]\n\n${helpOf(OPTIONS)}\n\nIn the chat:\n${HELP}`);
    return wantsHelp ? 0 : 2;
  }
  const progress = loadProgress("loading");
  await using engine = await createEngine({
    ...engineOptionsOf(values),
    onPull: progress.onProgress,
    onProgress: progress.onProgress,
  });
  progress.done();
  process.stdout.write(`${bold(engine.model.name)} on ${engine.model.device}. /help shows the commands.\n`);
  await converse(engine, samplingOf(values), typeof values.system === "string" ? values.system : null);
  return 0;
}

async function converse(engine: Engine, options: GenerateOptions, systemText: string | null): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
  let history: ChatMessage[] = start(systemText);
  let answering: AbortController | null = null;
  terminal.on("SIGINT", () => {
    if (answering === null) terminal.close();
    else answering.abort();
  });
  terminal.prompt();
  for await (const line of terminal) {
    const text = line.trim();
    if (text === "/exit" || text === "/quit") break;
    if (text === "/help") process.stdout.write(HELP);
    else if (text === "/reset") history = start(systemText);
    else if (text.startsWith("/system")) {
      systemText = text.slice("/system".length).trim() || null;
      history = start(systemText);
    } else if (text === "/stats") process.stdout.write(`${JSON.stringify(await engine.stats(), null, 2)}\n`);
    else if (text.startsWith("/")) process.stdout.write(`Unknown command ${text.split(" ")[0]}.\n${HELP}`);
    else if (text !== "") {
      answering = new AbortController();
      await answer(engine, history, text, options, answering.signal);
      answering = null;
    }
    terminal.prompt();
  }
  terminal.close();
}

function start(systemText: string | null): ChatMessage[] {
  return systemText === null ? [] : [{ role: "system", content: systemText }];
}

/** Asks, streams the answer and appends both to the history; a question that fails or is stopped is not kept. */
async function answer(
  engine: Engine,
  history: ChatMessage[],
  text: string,
  options: GenerateOptions,
  signal: AbortSignal,
): Promise<void> {
  const question: ChatMessage = { role: "user", content: text };
  try {
    const generation = engine.chat([...history, question], { ...options, signal });
    for await (const chunk of generation) process.stdout.write(chunk.text);
    const { text: reply, trace, samples } = await generation.result();
    history.push(question, { role: "assistant", content: reply });
    const cut = samples[0]!.finishReason === "length" ? ", cut at the length limit" : "";
    process.stdout.write(
      dim(
        `\n[${trace.promptTokens} prompt tokens, ${trace.cachedTokens} cached; ${trace.completionTokens} generated at ` +
          `${trace.tokensPerSecond.toFixed(1)} tokens/s${cut}]\n`,
      ),
    );
  } catch (error) {
    process.stdout.write(`\n${signal.aborted ? "[stopped]" : (error as Error).message}\n`);
  }
}
