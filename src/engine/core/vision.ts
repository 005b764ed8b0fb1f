// The eyes of a checkpoint, where it has any: what they are, and how they are loaded.

import type { EngineConfig } from "../../config/engine-config.js";
import type { LoadContext } from "../../models/model.js";
import { visionOf } from "../../models/vision/registry.js";
import type { Eyes } from "../../models/vision/vision-model.js";
import type { Checkpoint } from "../checkpoint.js";
import type { VisionFacts } from "../messages.js";

export interface Vision {
  readonly facts: VisionFacts;
  load(context: Omit<LoadContext, "capacity">): Eyes;
}

/** null: the model has no eyes, nobody says how its pictures are prepared, or pictures are turned off. */
export function visionFor(checkpoint: Checkpoint, maxContext: number, config: EngineConfig): Vision | null {
  const family = config.images ? visionOf(checkpoint.visionConfig) : null;
  if (family === null || checkpoint.processor === null) return null;
  const parsed = family.parseConfig(checkpoint.visionConfig, checkpoint.configFile);
  const spec = family.specOf(parsed);
  const maxFrameTokens = spec.maxTokens ?? Math.min(config.maxImageTokens, maxContext);
  return {
    facts: { ...spec, maxFrameTokens },
    load: (context) => {
      const source = checkpoint.openVisionTensors() ?? context.source;
      return family.load(parsed, { ...context, source }, { maxTokens: maxFrameTokens });
    },
  };
}
