// `pagoda chat`: a conversation in the terminal. Every turn sends the whole conversation; the prefix trie makes that cheap, and
// the line under each answer shows how much of it was cached. When the context is full, the oldest turns leave.

import type { OptionTable } from "../../config/options.js";
import { ConfigError, RequestError } from "../../core/errors.js";
import type { ContentPart } from "../../engine/chat-types.js";
import type { GenerateOptions } from "../../engine/types.js";
import { hasHelped, parseFlags, type Usage } from "../args.js";
import { pictureOf } from "../picture-files.js";
import { adapterOf, engineOptionsOf, RUN_OPTIONS, SAMPLING_OPTIONS, samplingOf } from "../sampling-options.js";
import { ownKey } from "../server/openai-client.js";
import { startWithProgress } from "../start-engine.js";
import { bold } from "../terminal.js";
import { chooseModel } from "./choose-model.js";
import { Conversation } from "./conversation.js";
import { LineInput } from "./line-input.js";
import { MultiLine } from "./multi-line.js";
import { type ChatPartner, localPartner, remotePartner } from "./partner.js";
import { Talk } from "./talk.js";

export const CHAT_OPTIONS = {
  url: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "talk to this OpenAI-compatible server instead of loading a model",
  },
  apiKey: { type: "string", default: null, defaultText: "none", help: "key for that server" },
  system: { type: "string", short: "s", default: null, defaultText: "none", help: "system message" },
  image: { type: "list", default: [], defaultText: "none", help: "picture for the first question; may be given again" },
  ...SAMPLING_OPTIONS,
  ...RUN_OPTIONS,
} as const satisfies OptionTable;

const HELP = `/help           this text
/reset          forget the conversation
/system TEXT    set the system message and start anew
/regenerate     answer the last question again
/save FILE      keep the conversation in a file
/load FILE      go on with a kept conversation
/image FILE...  pictures for the next question
/stats          what the engine has done so far
/exit           leave (or Ctrl-D); Ctrl-C stops an answer
"""             begins and ends a message of several lines; a \\ at the end of a line goes on in the next
`;

const USAGE: Usage = {
  line: "chat [MODEL] [options]",
  examples: [
    "pagoda chat unsloth/Qwen3-0.6B-GGUF:Q4_K_M",
    'pagoda chat ./model.gguf --system "Answer in one sentence."',
    "pagoda chat Qwen/Qwen3-VL-2B-Instruct --image photo.jpg",
    "pagoda chat --url http://127.0.0.1:8000",
  ],
  common: [
    ...["model", "url", "apiKey", "device", "quantize", "maxContext", "system", "image"],
    ...["temperature", "topP", "topK", "maxTokens", "seed"],
  ],
  groups: { Sampling: SAMPLING_OPTIONS, Engine: RUN_OPTIONS },
};

export async function chatCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(CHAT_OPTIONS, args);
  const most = parsed.values.model === undefined ? 1 : 0;
  if (hasHelped(CHAT_OPTIONS, { ...USAGE, words: { most } }, parsed)) {
    process.stdout.write(`\nIn the chat:\n${HELP}`);
    return 0;
  }
  const [named] = parsed.positionals;
  const values = named === undefined ? parsed.values : { ...parsed.values, model: named };
  const systemText = typeof values.system === "string" ? values.system : null;
  const pictures = ((values.image ?? []) as readonly string[]).map(pictureOf);
  if (typeof values.url === "string") {
    const apiKey = values.apiKey ?? ownKey(values.url, process.env.PAGODA_API_KEY) ?? null;
    const model = typeof values.model === "string" ? values.model : null;
    await converse(await reach(values.url, model, apiKey as string | null, samplingOf(values)), systemText, pictures);
    return 0;
  }
  const options = engineOptionsOf(values);
  const isAtTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const chosen = options.model === undefined && isAtTerminal ? await chooseModel() : null;
  await using engine = await startWithProgress(chosen === null ? options : { ...options, model: chosen });
  if (!engine.model.hasChatTemplate) throw new RequestError("no_chat_template", { model: engine.model.name });
  await converse(localPartner(engine, { ...samplingOf(values), ...adapterOf(engine) }), systemText, pictures);
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
    throw new ConfigError("server_unreachable", { value: url, reason });
  }
}

async function converse(
  partner: ChatPartner,
  systemText: string | null,
  pictures: readonly ContentPart[],
): Promise<void> {
  process.stdout.write(`${bold(partner.introduction)}. /help shows the commands.\n`);
  const talk = new Talk(partner, new Conversation(systemText), pictures);
  const lines = new MultiLine();
  let isLeaving = false;
  const input = new LineInput(() => {
    if (talk.stop()) return;
    if (isLeaving) return input.close();
    isLeaving = !lines.isOpen && input.isEmpty;
    lines.clear();
    input.clear();
    process.stdout.write(isLeaving ? "\n(Ctrl-C again or /exit leaves)\n" : "\n");
    input.prompt("> ");
  });
  for (;;) {
    const typed = await input.next(lines.isOpen ? ". " : "> ");
    if (typed === null) break;
    isLeaving = false;
    if (typed.isPasted && !lines.isOpen) {
      await talk.ask(typed.text.trim());
      continue;
    }
    const text = typed.text.split("\n").reduce<string | null>((_, line) => lines.push(line), null);
    if (text === "/exit" || text === "/quit") break;
    if (text !== null && text !== "") await obey(talk, text);
  }
  input.close();
  if (process.stdout.isTTY === true) process.stdout.write("\n"); // the shell's prompt begins a line
}

async function obey(talk: Talk, text: string): Promise<void> {
  const [command, ...rest] = text.split(" ");
  const argument = rest.join(" ").trim();
  switch (command) {
    case "/help":
      process.stdout.write(HELP);
      return;
    case "/reset":
      return talk.conversation.reset();
    case "/system":
      return talk.conversation.reset(argument || null);
    case "/regenerate":
      return talk.regenerate();
    case "/save":
    case "/load":
      return talk.keep(command, argument);
    case "/image":
      return talk.attach(argument === "" ? [] : rest.filter((file) => file !== ""));
    case "/stats":
      return talk.stats();
  }
  if (text.startsWith("/")) process.stdout.write(`Unknown command ${command}.\n${HELP}`);
  else await talk.ask(text);
}
