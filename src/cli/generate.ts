// `pagoda generate PROMPT`: one answer on stdout, streamed. A model with a chat template gets the prompt as a user's message. What is
// piped in is the prompt, or takes the place of `-` in it: `git diff | pagoda generate "Describe this change:" -`. A model's file, folder or
// hub name may stand before the prompt.

import { existsSync, fstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { OptionTable } from "../config/options.js";
import { errorFor } from "../core/errors.js";
import { forOutput } from "../core/printable.js";
import type { ChatMessage } from "../engine/chat-types.js";
import type { Generation } from "../engine/types.js";
import { parseHubSpec } from "../formats/hub/hub-spec.js";
import { hasHelped, parseFlags, type Usage } from "./args.js";
import { pictureOf, withPictures } from "./picture-files.js";
import { adapterOf, engineOptionsOf, RUN_OPTIONS, SAMPLING_OPTIONS, samplingOf } from "./sampling-options.js";
import { startWithProgress } from "./start-engine.js";
import { dim } from "./terminal.js";

export const GENERATE_OPTIONS = {
  raw: { type: "boolean", default: false, help: "continue the prompt as it is, without the chat template" },
  system: { type: "string", short: "s", default: null, defaultText: "none", help: "system message" },
  image: { type: "list", default: [], defaultText: "none", help: "picture beside the prompt; may be given again" },
  n: { type: "integer", min: 1, default: 1, help: "number of answers" },
  json: { type: "boolean", default: false, help: "print the result with its trace as JSON" },
  ...SAMPLING_OPTIONS,
  ...RUN_OPTIONS,
} as const satisfies OptionTable;

const USAGE: Usage = {
  line: "generate [MODEL] PROMPT [options]",
  examples: [
    'pagoda generate Qwen/Qwen3-0.6B "Why is the sky blue?"',
    'pagoda generate Qwen/Qwen3-VL-2B-Instruct "What is this?" --image photo.jpg',
    'git diff | pagoda generate "Describe this change:" -',
  ],
  common: [
    ...["model", "device", "quantize", "maxContext", "system", "image", "raw", "json", "n"],
    ...["temperature", "topP", "topK", "maxTokens", "seed", "stop"],
  ],
  groups: { Sampling: SAMPLING_OPTIONS, Engine: RUN_OPTIONS },
  words: { most: Number.POSITIVE_INFINITY },
};

export async function generateCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(GENERATE_OPTIONS, args);
  if (hasHelped(GENERATE_OPTIONS, USAGE, parsed)) return 0;
  const { model, words } = splitModel(parsed.positionals, parsed.values.model !== undefined);
  const values = model === null ? parsed.values : { ...parsed.values, model };
  const prompt = promptOf(words);
  if (prompt === "") throw errorFor("wrong_usage", { reason: "The prompt is empty.", usage: USAGE.line });
  const pictures = ((values.image ?? []) as readonly string[]).map(pictureOf);
  await using engine = await startWithProgress(engineOptionsOf(values));
  const options = {
    ...samplingOf(values),
    ...adapterOf(engine),
    ...(values.n === undefined ? {} : { n: values.n as number }),
  };
  const system: ChatMessage[] = typeof values.system === "string" ? [{ role: "system", content: values.system }] : [];
  const isChat = engine.model.hasChatTemplate && values.raw !== true;
  if (!isChat && pictures.length > 0)
    throw errorFor("wrong_usage", { reason: "Pictures need the chat template: leave out --raw.", usage: USAGE.line });
  const conversation: ChatMessage[] = [...system, { role: "user", content: withPictures(pictures, prompt) }];
  const generation = engine.generate(isChat ? conversation : prompt, options);
  if (values.json === true) process.stdout.write(`${JSON.stringify(await generation.result(), null, 2)}\n`);
  else await print(generation, options.n ?? 1);
  return 0;
}

/** A first word that can only be a model is one: a path of it, or, before a prompt in quotes, its name on the hub. */
export function splitModel(
  positionals: readonly string[],
  isNamed: boolean,
): { readonly model: string | null; readonly words: readonly string[] } {
  const [first = "", ...words] = positionals;
  const isPath = first.endsWith(".gguf") || existsSync(join(first, "config.json"));
  const isHubName = words.length === 1 && first.includes("/") && parseHubSpec(first) !== null;
  return !isNamed && (isPath || isHubName) ? { model: first, words } : { model: null, words: positionals };
}

/**
 * The words of the command line, `-` standing for what is piped in; without words, that alone. Words without `-` do not look at the
 * pipe: whoever starts us may have left it open.
 */
function promptOf(words: readonly string[]): string {
  if (words.length > 0 && !words.includes("-")) return words.join(" ");
  const stdin = fstatSync(0);
  const piped = stdin.isFIFO() || stdin.isFile() || stdin.isSocket() ? readFileSync(0, "utf8").trim() : "";
  return words.length === 0
    ? piped
    : words
        .map((word) => (word === "-" ? `\n\n${piped}` : word))
        .join(" ")
        .trim();
}

async function print(generation: Generation, n: number): Promise<void> {
  if (n === 1) {
    for await (const chunk of generation) process.stdout.write(forOutput(chunk.text));
    process.stdout.write("\n");
  }
  const { samples, trace } = await generation.result();
  if (n > 1)
    for (const sample of samples) process.stdout.write(`--- ${sample.index + 1} of ${n}\n${forOutput(sample.text)}\n`);
  process.stderr.write(
    dim(
      `${trace.promptTokens} prompt tokens (${trace.cachedTokens} cached), ${trace.completionTokens} generated, ` +
        `first after ${trace.timeToFirstTokenMs.toFixed(0)} ms, ${trace.tokensPerSecond.toFixed(1)} tokens/s\n`,
    ),
  );
}
