// Which layers see a sliding window. Newer configs list `layer_types`; older ones give a rule, which each family states.

import type { ConfigReader } from "./config-reader.js";

/**
 * The window of each layer, 0 for full attention. `isSliding` is the family's rule for configs without layer_types. A window of at
 * least maxContext tokens hides nothing: it is full attention.
 */
export function layerWindows(
  c: ConfigReader,
  { numLayers, maxContext }: { readonly numLayers: number; readonly maxContext: number },
  isSliding: (layer: number) => boolean,
): readonly number[] {
  const isLayerSliding = c.has("layer_types") ? byLayerTypes(c, numLayers) : isSliding;
  const layers = Array.from({ length: numLayers }, (_, layer) => layer);
  if (!layers.some(isLayerSliding)) return layers.map(() => 0);
  const window = c.int("sliding_window");
  return layers.map((layer) => (isLayerSliding(layer) && window < maxContext ? window : 0));
}

/** Other names of the same kinds of layers, in older checkpoints. */
const TYPE_ALIASES: Readonly<Record<string, string>> = { attention: "full_attention", mamba: "linear_attention" };

/** `layer_types` [L], each one of `known`; by the family's rule where the config has none. */
export function readLayerTypes(
  c: ConfigReader,
  numLayers: number,
  known: readonly string[],
  rule: (layer: number) => string,
  field = "layer_types",
): readonly string[] {
  if (!c.has(field)) return Array.from({ length: numLayers }, (_, layer) => rule(layer));
  const types = c.strings(field).map((type) => (known.includes(type) ? type : (TYPE_ALIASES[type] ?? type)));
  c.check(types.length === numLayers, field, `a list of ${numLayers} names`);
  const unknown = types.find((type) => !known.includes(type));
  if (unknown !== undefined) throw c.refuse(field, unknown, known.join(", "));
  return types;
}

function byLayerTypes(c: ConfigReader, numLayers: number): (layer: number) => boolean {
  const types = c.strings("layer_types");
  c.check(types.length === numLayers, "layer_types", `a list of ${numLayers} names`);
  for (const type of types) {
    if (type !== "full_attention" && type !== "sliding_attention") {
      throw c.refuse("layer_types", type, "full_attention, sliding_attention");
    }
  }
  return (layer) => types[layer] === "sliding_attention";
}
