// The eyes of a checkpoint, where it has any: what they are, and how they are loaded. A model whose eyes cannot be used serves text, and says so.

import type { EngineConfig } from "../../../config/engine-config.js";
import { FormatError } from "../../../core/errors.js";
import type { LoadContext } from "../../../models/model.js";
import { visionOf } from "../../../models/vision/registry.js";
import type { Eyes } from "../../../models/vision/vision-model.js";
import type { Checkpoint } from "../../checkpoint.js";
import type { VisionFacts } from "../../messages.js";

export interface Vision {
  readonly facts: VisionFacts;
  /** null: they cannot be used. */
  load(context: Omit<LoadContext, "capacity">): Eyes | null;
}

/** null: the model has no eyes, nobody says how its pictures are prepared, or pictures are turned off. */
export function visionFor(checkpoint: Checkpoint, maxContext: number, config: EngineConfig): Vision | null {
  if (!config.images) return null;
  if (checkpoint.blindBecause !== null) tell(checkpoint.blindBecause);
  if (checkpoint.processor === null) return null;
  return usable(() => {
    const family = visionOf(checkpoint.visionConfig);
    if (family === null) return null;
    const parsed = family.parseConfig(checkpoint.visionConfig, checkpoint.configFile);
    const spec = family.specOf(parsed);
    const maxFrameTokens = spec.maxTokens ?? Math.min(config.maxImageTokens, maxContext);
    return {
      facts: { ...spec, maxFrameTokens },
      load: (context) =>
        usable(() => {
          const source = checkpoint.openVisionTensors() ?? context.source;
          return family.load(parsed, { ...context, source }, { maxTokens: maxFrameTokens });
        }),
    };
  });
}

/** null, and a line that says why, where the checkpoint's eyes are of a kind that is not served. */
function usable<T>(make: () => T | null): T | null {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    tell(error.message);
    return null;
  }
}

function tell(reason: string): void {
  process.stderr.write(`pagoda: pictures are refused, for the model's eyes cannot be used: ${reason}\n`);
}
