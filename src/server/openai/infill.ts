// A gap to fill: prefix and suffix between the markers of a model that was trained for it. Which markers, its vocabulary tells.

import type { Context } from "hono";
import { tokenizeText } from "../calls/prompt.js";
import type { AppEnv } from "../context.js";
import { ApiError } from "../http/api-error.js";

/** Before the prefix, before the suffix, before what fills the gap. */
const MARKERS: readonly (readonly [string, string, string])[] = [
  ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], // Qwen, CodeGemma
  ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"], // StarCoder, Granite, SmolLM
  ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"], // DeepSeek
  ["<|fim▁begin|>", "<|fim▁hole|>", "<|fim▁end|>"],
  ["▁<PRE>", "▁<SUF>", "▁<MID>"], // Code Llama
];

export async function infillPrompt(c: Context<AppEnv>, prefix: string, suffix: string): Promise<number[]> {
  const { engine, modelNames } = c.get("server");
  const idOf = (marker: string): number | null => {
    const ids = engine.tokenizer.encode(marker, { addSpecialTokens: false });
    return ids.length === 1 ? ids[0]! : null;
  };
  for (const markers of MARKERS) {
    const [before, between, after] = markers.map(idOf);
    if (before === null || between === null || after === null) continue;
    const plain = async (text: string): Promise<number[]> =>
      text === "" ? [] : tokenizeText(c, text, { addSpecialTokens: false, content: [[0, text.length]] }, "prompt");
    return [before!, ...(await plain(prefix)), between!, ...(await plain(suffix)), after!];
  }
  const message = `The model ${modelNames[0]} has no markers for infilling; leave suffix out.`;
  throw new ApiError("invalid_value", message, { param: "suffix" });
}
