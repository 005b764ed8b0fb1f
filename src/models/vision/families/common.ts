// What the families' eyes read in the same way.

import { isRecord } from "../../../formats/json-file.js";
import { ConfigReader } from "../../config-reader.js";
import type { Loader } from "../../loader.js";

/** The whole config, its vision_config over `defaults`, and the size of the text model's embeddings. */
export function sectionOf(raw: Record<string, unknown>, file: string, defaults: Record<string, unknown> = {}) {
  const c = new ConfigReader(raw, file);
  const given = isRecord(raw.vision_config) ? raw.vision_config : {};
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
  const text = new ConfigReader(isRecord(raw.text_config) ? raw.text_config : raw, file);
  return { c, v: new ConfigReader({ ...defaults, ...known }, file), text, textSize: text.int("hidden_size", 4096) };
}

/** Of two edges that must be equal. */
export function edgeOf(v: ConfigReader, name: string): number {
  const value = v.raw[name];
  const edges = Array.isArray(value) ? v.ints(name) : [v.int(name), v.int(name)];
  v.check(edges.length === 2 && edges[0] === edges[1] && edges[0]! > 0, name, "two equal edges");
  return edges[0]!;
}

/** The same of several layers, in the list's order. */
export function runLayersList(c: ConfigReader, numLayers: number, absent: number): readonly number[] {
  const layers = c.raw.vision_feature_layer;
  if (!Array.isArray(layers)) return [runLayers(c, numLayers, absent)];
  const known = layers.map((layer) => (typeof layer === "number" && layer < 0 ? numLayers + 1 + layer : layer));
  if (known.length > 0 && known.every((runs) => Number.isInteger(runs) && runs >= 0 && runs <= numLayers)) return known;
  throw c.refuse("vision_feature_layer", layers, `layers of the tower's ${numLayers}`);
}

/** How many layers are run for the features of `vision_feature_layer`, which counts hidden states: those before the first layer too. */
export function runLayers(c: ConfigReader, numLayers: number, absent: number): number {
  const layer = c.raw.vision_feature_layer ?? absent;
  const runs = typeof layer !== "number" ? Number.NaN : layer < 0 ? numLayers + 1 + layer : layer;
  if (Number.isInteger(runs) && runs >= 0 && runs <= numLayers) return runs;
  throw c.refuse("vision_feature_layer", layer, `one of the tower's ${numLayers} layers`);
}

/** The first of the prefixes under which there is such a tensor. */
export function prefixOf(loader: Loader, prefixes: readonly string[], name: string): string {
  return prefixes.find((prefix) => loader.has(`${prefix}${name}`)) ?? prefixes[0]!;
}
