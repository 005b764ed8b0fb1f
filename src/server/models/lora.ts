// llama.cpp's way to choose an adapter: by its number, with a factor on what it adds.

import type { GenerateOptions } from "../../engine/types.js";
import type { ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";

export interface LoraChoice {
  readonly id: number;
  readonly scale: number;
}

/** Several at once are refused: a row has one adapter. None with a scale beside 0: the model that the request names. */
export function loraOf(
  { engine }: ServerContext,
  choices: readonly LoraChoice[] | null | undefined,
): Pick<GenerateOptions, "adapter"> {
  const chosen = (choices ?? []).filter(({ scale }) => scale !== 0);
  if (chosen.length === 0) return {};
  const refuse = (message: string): never => {
    throw new ApiError("invalid_value", message, { param: "lora" });
  };
  if (chosen.length > 1) refuse("lora: a request has one adapter; give the others scale 0.");
  const { id, scale } = chosen[0]!;
  const { name } = engine.adapters[id] ?? refuse(`lora: there is no adapter ${id}. GET /lora-adapters lists them.`);
  return { adapter: { name, scale } };
}
