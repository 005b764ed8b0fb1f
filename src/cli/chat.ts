// `pagoda chat`: a conversation in the terminal. Every turn sends the whole conversation; the prefix trie makes that cheap, and
// the line under each answer shows how much of it was cached.

import { createInterface } from "node:readline/promises";
import type { OptionTable } from "../config/options.js";
import { ConfigError } from "../core/errors.js";
import { createEngine } from "../engine/client/engine.js";
import type { ChatMessage, GenerateOptions } from "../engine/types.js";
import { helpOf, parseFlags } from "./args.js";
import { type ChatPartner, localPartner, remotePartner } from "./chat-partner.js";
import { engineOptionsOf, RUN_OPTIONS, SAMPLING_OPTIONS, samplingOf } from "./sampling-options.js";
import { bold, dim, loadProgress } from "./terminal.js";

const OPTIONS = {
  url: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "talk to this OpenAI-compatible server instead of loading a model",
  },
  apiKey: { type: "string", default: null, defaultText: "none", help: "key for that server" },
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
  const systemText = typeof values.system === "string" ? values.system : null;
  if (typeof values.url === "string") {
    const apiKey = typeof values.apiKey === "string" ? values.apiKey : (process.env.PAGODA_API_KEY ?? null);
    const model = typeof values.model === "string" ? values.model : null;
    await converse(await reach(values.url, model, apiKey, samplingOf(values)), systemText);
    return 0;
  }
  const progress = loadProgress("loading");
  await using engine = await createEngine({
    ...engineOptionsOf(values),
    onPull: progress.onProgress,
    onProgress: progress.onProgress,
  });
  progress.done();
  await converse(localPartner(engine, samplingOf(values)), systemText);
  return 0;
}

async function reach(
  url: string,
  model: string | null,
  apiKey: string | null,
  options: GenerateOptions,
): Promise<ChatPartner> {
  try {
    return await remotePartner(url, model, apiKey, options);
  } catch (error) {
    const reason = (error as Error & { cause?: Error }).cause?.message ?? (error as Error).message;
    throw new ConfigError("invalid_option", {
      param: "--url",
      value: url,
      expected: `a server that answers (${reason})`,
    });
  }
}

async function converse(partner: ChatPartner, systemText: string | null): Promise<void> {
  process.stdout.write(`${bold(partner.introduction)}. /help shows the commands.\n`);
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
    } else if (text === "/stats") process.stdout.write(`${await partner.stats()}\n`);
    else if (text.startsWith("/")) process.stdout.write(`Unknown command ${text.split(" ")[0]}.\n${HELP}`);
    else if (text !== "") {
      answering = new AbortController();
      await answer(partner, history, text, answering.signal);
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
async function answer(partner: ChatPartner, history: ChatMessage[], text: string, signal: AbortSignal): Promise<void> {
  const question: ChatMessage = { role: "user", content: text };
  try {
    const reply = await partner.answer([...history, question], signal, (piece) => process.stdout.write(piece));
    history.push(question, { role: "assistant", content: reply.text });
    const { promptTokens, cachedTokens, completionTokens, tokensPerSecond, isCut } = reply;
    process.stdout.write(
      dim(
        `\n[${promptTokens ?? "?"} prompt tokens, ${cachedTokens ?? "?"} cached; ${completionTokens ?? "?"} generated at ` +
          `${tokensPerSecond.toFixed(1)} tokens/s${isCut ? ", cut at the length limit" : ""}]\n`,
      ),
    );
  } catch (error) {
    process.stdout.write(`\n${signal.aborted ? "[stopped]" : (error as Error).message}\n`);
  }
}
