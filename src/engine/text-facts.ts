// What callers must know of a model to have texts embedded or scored by it; its weights need not be there.

import type { TextRecipe } from "../formats/text-recipe.js";
import type { ModelSpec } from "../models/model.js";
import type { EngineFacts } from "./messages.js";

export type TextFacts = Pick<EngineFacts, "task" | "isBidirectional" | "numLabels" | "scorePooling">;

export function textFacts(spec: ModelSpec, { verdict }: TextRecipe): TextFacts {
  const { task = "generate", isBidirectional = false, numLabels = 0, scorePooling = "last" } = spec;
  return { task, isBidirectional, numLabels: verdict === null ? numLabels : 1, scorePooling };
}
