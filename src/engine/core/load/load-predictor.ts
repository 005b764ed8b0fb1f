// The weights that guess for an engine's requests: which they are, whether they fit the model, and loading them beside it.

import type { EngineConfig } from "../../../config/engine-config.js";
import type { CacheSpec } from "../../../core/cache-spec.js";
import { ConfigError, FormatError } from "../../../core/errors.js";
import { isPredictor, type PredictorMethod } from "../../../core/speculation.js";
import type { TensorSource } from "../../../core/tensor.js";
import type { Device } from "../../../device/device.js";
import type { Caches, LoadContext, Model, ModelCapacity, ModelSpec } from "../../../models/model.js";
import { Eagle3Head, isEagle3, readEagle3, tapsOf } from "../../../models/predictors/eagle3.js";
import { DraftModel, type Predictor } from "../../../models/predictors/predictor.js";
import { familyOf } from "../../../models/registry.js";
import { type Checkpoint, openCheckpoint } from "../../checkpoint.js";
import { pagedCaches } from "./cache-pools.js";
import { fingerprintOf } from "./fingerprint.js";

/** A predictor that fits the model, before it is loaded. */
export interface PlannedPredictor {
  readonly method: PredictorMethod;
  /** What the model must be loaded with. */
  readonly needs: Pick<LoadContext, "withHead" | "taps">;
  load(device: Device, capacity: ModelCapacity, model: Model): LoadedPredictor;
}

interface LoadedPredictor {
  readonly predictor: Predictor;
  readonly fingerprint: string;
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
  if (speculative === "mtp") return plannedHead(verifier);
  if (draftModel === null) {
    const expected = `given with speculative ${speculative}: a folder, a .gguf file or a model of the hub`;
    throw new ConfigError("invalid_option", { param: "draftModel", value: "none", expected });
  }
  const checkpoint = openCheckpoint(draftModel);
  return isEagle3(checkpoint.config)
    ? plannedEagle3(config, checkpoint, verifier, maxContext)
    : plannedDraft(config, checkpoint, verifier, maxContext);
}

function refusalOf({ path }: Checkpoint, { checkpoint: { name } }: Verifier, reason: string): FormatError {
  return new FormatError("draft_unsuitable", { file: path, model: name, reason });
}

/** The head that the model's own checkpoint carries. */
function plannedHead(verifier: Verifier): PlannedPredictor {
  return {
    method: "mtp",
    needs: { withHead: true },
    load(_device, _capacity, { predictor }) {
      const { checkpoint } = verifier;
      if (predictor === undefined)
        throw refusalOf(checkpoint, verifier, "it has no head that predicts further tokens, or none of a known layout");
      return { predictor, fingerprint: "mtp" };
    },
  };
}

function plannedEagle3(
  config: EngineConfig,
  checkpoint: Checkpoint,
  verifier: Verifier,
  maxContext: number,
): PlannedPredictor {
  const parsed = readEagle3(checkpoint.config, checkpoint.configFile);
  const { vocabSize, numLayers } = verifier.spec;
  const { layer } = parsed;
  if (layer.vocabSize !== vocabSize) {
    const reason = `it has ${layer.vocabSize} tokens, the model ${vocabSize}`;
    throw new FormatError("draft_vocabulary", { file: checkpoint.path, model: verifier.checkpoint.name, reason });
  }
  if (layer.maxContext < maxContext) throw refusalOf(checkpoint, verifier, shortContext(layer.maxContext, maxContext));
  const taps = tapsOf(parsed, numLayers);
  if (taps.some((tap) => tap < 0 || tap >= numLayers))
    throw refusalOf(checkpoint, verifier, `it reads layers ${taps.join(", ")}; the model has ${numLayers}`);
  return {
    method: "eagle3",
    needs: { taps },
    load(device, capacity, model) {
      const source = checkpoint.openTensors();
      try {
        if (model.taps === undefined)
          throw refusalOf(checkpoint, verifier, "this family does not show its layers' streams");
        if (!source.has("embed_tokens.weight") && !source.has("model.embed_tokens.weight")) {
          const { hiddenSize } = verifier.spec;
          if (layer.hiddenSize !== hiddenSize)
            throw refusalOf(
              checkpoint,
              verifier,
              `it has no embeddings, and ${layer.hiddenSize} columns; the model ${hiddenSize}`,
            );
        }
        const fingerprint = fingerprintOf(checkpoint.config, readable(source));
        return {
          predictor: new Eagle3Head(parsed, { device, source, capacity, quantize: config.quantize }, model),
          fingerprint,
        };
      } finally {
        source.close();
      }
    },
  };
}

/** Without the mask of the draft vocabulary: booleans, which its ids say too. */
function readable(source: TensorSource): TensorSource {
  return {
    path: source.path,
    has: (name) => source.has(name),
    get: (name, shape) => source.get(name, shape),
    names: () => [...source.names()].filter((name) => name !== "t2d"),
    close: () => source.close(),
  };
}

function shortContext(own: number, engine: number): string {
  return `its context is ${own} tokens, the engine's ${engine}; lower maxContext`;
}

function plannedDraft(
  config: EngineConfig,
  checkpoint: Checkpoint,
  verifier: Verifier,
  maxContext: number,
): PlannedPredictor {
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const parsed = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(parsed);
  const refuse = (reason: string): never => {
    throw refusalOf(checkpoint, verifier, reason);
  };
  if (spec.isBidirectional || (spec.task ?? "generate") !== "generate") refuse("it does not generate text");
  if (spec.caches.some(({ kind }) => kind === "state"))
    refuse("its layers have states, which cannot go back to before a wrong guess");
  if (spec.maxContext < maxContext) refuse(shortContext(spec.maxContext, maxContext));
  const difference = vocabularyDifference(checkpoint, spec, verifier);
  if (difference !== null)
    throw new FormatError("draft_vocabulary", {
      file: checkpoint.path,
      model: verifier.checkpoint.name,
      reason: difference,
    });
  return {
    method: "draft",
    needs: {},
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
