// The weights that guess for an engine's requests: which they are, whether they fit the model, and loading them beside it.

import type { EngineConfig } from "../../config/engine-config.js";
import type { CacheSpec } from "../../core/cache-spec.js";
import { ConfigError, FormatError } from "../../core/errors.js";
import { isPredictor, type PredictorMethod } from "../../core/speculation.js";
import type { Device } from "../../device/device.js";
import type { Caches, ModelCapacity, ModelSpec } from "../../models/model.js";
import { DraftModel, type Predictor } from "../../models/predictors/predictor.js";
import { familyOf } from "../../models/registry.js";
import { type Checkpoint, openCheckpoint } from "../checkpoint.js";
import { pagedCaches } from "./cache-pools.js";
import { fingerprintOf } from "./fingerprint.js";

/** A predictor that fits the model, before it is loaded. */
export interface PlannedPredictor {
  readonly method: PredictorMethod;
  load(device: Device, capacity: ModelCapacity): { readonly predictor: Predictor; readonly fingerprint: string };
}

interface Verifier {
  readonly checkpoint: Checkpoint;
  readonly spec: ModelSpec;
}

/** null: nobody asks for one. */
export function plannedPredictor(
  config: EngineConfig,
  verifier: Verifier,
  maxContext: number,
): PlannedPredictor | null {
  const { speculative, draftModel } = config;
  if (!isPredictor(speculative) && draftModel === null) return null;
  if (draftModel === null) {
    const expected = `given with speculative ${speculative}: a folder, a .gguf file or a model of the hub`;
    throw new ConfigError("invalid_option", { param: "draftModel", value: "none", expected });
  }
  return plannedDraft(config, draftModel, verifier, maxContext);
}

function plannedDraft(config: EngineConfig, path: string, verifier: Verifier, maxContext: number): PlannedPredictor {
  const checkpoint = openCheckpoint(path);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const parsed = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(parsed);
  const refuse = (reason: string): never => {
    throw new FormatError("draft_unsuitable", { file: checkpoint.path, model: verifier.checkpoint.name, reason });
  };
  if (spec.isBidirectional || (spec.task ?? "generate") !== "generate") refuse("it does not generate text");
  if (spec.caches.some(({ kind }) => kind === "state"))
    refuse("its layers have states, which cannot go back to before a wrong guess");
  if (spec.maxContext < maxContext)
    refuse(`its context is ${spec.maxContext} tokens, the engine's ${maxContext}; lower maxContext`);
  const difference = vocabularyDifference(checkpoint, spec, verifier);
  if (difference !== null)
    throw new FormatError("draft_vocabulary", {
      file: checkpoint.path,
      model: verifier.checkpoint.name,
      reason: difference,
    });
  return {
    method: "draft",
    load(device, capacity) {
      const source = checkpoint.openTensors();
      try {
        const fingerprint = fingerprintOf(checkpoint.config, source);
        const model = family.load(parsed, { device, source, capacity, quantize: config.quantize });
        return { predictor: new DraftModel(model), fingerprint };
      } finally {
        source.close();
      }
    },
  };
}

/** Where two vocabularies differ, in words; null: nowhere. Padding behind the tokenizer's ids does not count. */
function vocabularyDifference({ tokenizer }: Checkpoint, { vocabSize }: ModelSpec, verifier: Verifier): string | null {
  const other = verifier.checkpoint.tokenizer;
  if (tokenizer === null || other === null) {
    const theirs = verifier.spec.vocabSize;
    return vocabSize === theirs ? null : `it has ${vocabSize} tokens, the model ${theirs}`;
  }
  if (tokenizer.vocabSize !== other.vocabSize)
    return `its tokenizer has ${tokenizer.vocabSize} tokens, the model's ${other.vocabSize}`;
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    const [mine, theirs] = [tokenizer.idToToken(id), other.idToToken(id)];
    if (mine !== theirs) return `token ${id} is ${JSON.stringify(mine)}, the model's is ${JSON.stringify(theirs)}`;
  }
  return null;
}

/** The groups of a model and its predictor: those with pages first, the model's before the predictor's. */
export function withPredictor(caches: readonly CacheSpec[], predictor: Predictor | null): readonly CacheSpec[] {
  if (predictor === null) return caches;
  const paged = pagedCaches(caches);
  return [...paged, ...predictor.caches, ...caches.slice(paged.length)];
}

/** The pools of both as each of them numbers its own. */
export function splitCaches(pools: Caches, caches: readonly CacheSpec[], predictor: Predictor | null) {
  if (predictor === null) return { ofModel: pools, ofPredictor: [] };
  const first = pagedCaches(caches).length;
  const end = first + predictor.caches.length;
  return { ofModel: [...pools.slice(0, first), ...pools.slice(end)], ofPredictor: pools.slice(first, end) };
}
