// Decoders saved without their head over the vocabulary: base models (...Model), which embed, and classifiers
// (...ForSequenceClassification), whose `score` matrix reads the last token. The family is that of the causal model.

import { ConfigReader } from "./config-reader.js";
import { countLabels } from "./encoder-config.js";
import { Loader } from "./loader.js";
import type { Model, ModelFamily } from "./model.js";

/** The causal architectures that may stand behind a name, best first; empty: the name is of neither kind. */
export function causalNames(name: string): readonly string[] {
  const base = /^(.+?)(Text)?(Model|ForSequenceClassification)$/.exec(name)?.[1];
  return base === undefined ? [] : [`${base}ForCausalLM`, `${base}LMHeadModel`];
}

interface Headed {
  readonly inner: unknown;
  /** 0: a base model. */
  readonly numLabels: number;
}

/** The same family without a head, or with one for labels. */
export function withoutHead(family: ModelFamily, architecture: string): ModelFamily<Headed> {
  const specOf = ({ inner, numLabels }: Headed) => {
    const spec = { ...family.specOf(inner), architecture };
    return numLabels > 0
      ? { ...spec, task: "score" as const, numLabels, scorePooling: "last" as const }
      : { ...spec, task: "embed" as const };
  };
  return {
    architectures: [architecture],
    parseConfig(raw, file) {
      const isClassifier = architecture.endsWith("ForSequenceClassification");
      return {
        // There is no other head to look for.
        inner: family.parseConfig({ ...raw, tie_word_embeddings: true }, file),
        numLabels: isClassifier ? countLabels(new ConfigReader(raw, file)) : 0,
      };
    },
    specOf,
    load(config, context) {
      const { inner, numLabels } = config;
      const model = family.load(inner, context);
      const spec = specOf(config);
      const { hiddenSize } = spec;
      const headed: Model = {
        spec,
        hidden: model.hidden,
        logits: model.logits,
        forward: (batch, caches, inputs, places) => model.forward(batch, caches, inputs, places),
        computeLogits: (batch, first, n) => model.computeLogits(batch, first, n),
      };
      if (numLabels === 0) return headed;
      return { ...headed, scorer: new Loader(context).hostLinear("score", numLabels, hiddenSize, false) };
    },
    ignoredTensors: ({ inner }) => [...(family.ignoredTensors?.(inner) ?? []), /^lm_head\./],
  };
}
