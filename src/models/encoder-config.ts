// What the configs of encoders have in common: their architecture names say what is on top of the same encoder.

import type { Pooling } from "../core/pooling.js";
import type { RopeConfig } from "../formats/rope-config.js";
import type { CacheLayout } from "./cache-layout.js";
import { type CommonConfig, specOf } from "./common-config.js";
import type { ConfigReader } from "./config-reader.js";
import type { ModelSpec } from "./model.js";

/** ...Model, ...ForMaskedLM and the like: the encoder alone is used. ...ForSequenceClassification: its labels are scored. */
export function encoderArchitectures(base: string): readonly string[] {
  return [`${base}Model`, `${base}ForMaskedLM`, classifierName(base)];
}

export function classifierName(base: string): string {
  return `${base}ForSequenceClassification`;
}

/** The number of labels where the config is of a classifier; 0: it is not. */
export function readLabels(c: ConfigReader, base: string): number {
  const names = c.has("architectures") ? c.strings("architectures") : [];
  return names.includes(classifierName(base)) ? countLabels(c) : 0;
}

/** Of a config that is known to be a classifier's: id2label where it is given, else num_labels, else two. */
export function countLabels(c: ConfigReader): number {
  const labels = c.raw.id2label;
  if (typeof labels === "object" && labels !== null) return Math.max(1, Object.keys(labels).length);
  return c.int("num_labels", 2);
}

/** `numLabels` 0: not a classifier. */
export function encoderSpec(
  config: CommonConfig & { readonly numLabels: number },
  layout: CacheLayout,
  ropes: readonly RopeConfig[],
  scorePooling: Pooling = "first",
): ModelSpec {
  const { numLabels } = config;
  const spec = { ...specOf(config, layout, ropes), isBidirectional: true };
  return numLabels > 0 ? { ...spec, task: "score", numLabels, scorePooling } : { ...spec, task: "embed" };
}
