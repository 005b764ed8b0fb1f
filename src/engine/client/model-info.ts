// What callers may know of the loaded model.

import type { EngineFacts } from "../messages.js";
import type { ModelInfo } from "../types.js";
import type { ChatCheckpoint } from "./chat-checkpoint.js";
import { contextLimit } from "./validate.js";

export function modelInfo(facts: EngineFacts, { name, chatTemplate, generation }: ChatCheckpoint): ModelInfo {
  const { architecture, vocabSize, maxContext, task, device, deterministic, vision } = facts;
  return {
    name,
    architecture,
    vocabSize,
    maxContext,
    maxLength: contextLimit(facts),
    task,
    device,
    deterministic,
    hasChatTemplate: chatTemplate !== null,
    hasEyes: vision !== null,
    sampling: generation.sampling,
  };
}
