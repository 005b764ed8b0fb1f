// Adapters as llama.cpp has them: a GGUF file of the type "adapter" with pairs NAME.lora_a [rank, inputs] and NAME.lora_b [outputs, rank] for
// tensors NAME of the base's own file. Rows of b that a converter of the base would move were moved, and are put back.

import { FormatError } from "../core/errors.js";
import type { HostTensor } from "../core/tensor.js";
import { openGguf } from "../formats/gguf/gguf.js";
import { GGUF_ARCHITECTURES } from "../formats/gguf/gguf-config.js";
import { ggufRows } from "../formats/gguf/gguf-tensors.js";
import { renamed } from "../formats/tensor-views.js";
import type { Adapter, AdapterPair } from "./adapter.js";

const HALF = /^(.+\.weight)\.lora_(a|b)$/;
/** Keys that ask for more than pairs. */
const REFUSED = ["adapter.alora.invocation_tokens"];

export function openGgufAdapter(path: string, config: Record<string, unknown>): Adapter {
  const { path: file, metadata, source } = openGguf(path);
  try {
    const refuse = (param: string, known: string): FormatError =>
      new FormatError("unsupported_model_option", { file, param, value: shown(metadata.get(param)), known });
    if (metadata.get("general.type") !== "adapter") throw refuse("general.type", "adapter");
    if (metadata.get("adapter.type") !== "lora") throw refuse("adapter.type", "lora");
    for (const key of REFUSED) if (metadata.has(key)) throw refuse(key, "adapters without it");
    const architecture = metadata.get("general.architecture");
    if (typeof architecture !== "string" || !Object.hasOwn(GGUF_ARCHITECTURES, architecture))
      throw refuse("general.architecture", "one that Pagoda serves models of");
    const alpha = metadata.get("adapter.lora.alpha");
    if (typeof alpha !== "number" || !Number.isFinite(alpha)) throw refuse("adapter.lora.alpha", "a number");
    const heads = headsOf(config);
    const pairs = readHalves(file, source.names(), (name) => source.get(name)).flatMap(({ name, a, b }) => {
      const rank = rankOf(file, a, b);
      // llama.cpp takes an alpha of 0 for none: the pairs are scaled already.
      const scale = alpha === 0 ? 1 : alpha / rank;
      return ggufRows(architecture, heads, renamed(b, name)).map((rows): AdapterPair => {
        return { module: rows.name.replace(/\.weight$/, ""), a, b: renamed(rows, b.name), rank, scale };
      });
    });
    return { file, pairs, close: () => source.close() };
  } catch (error) {
    source.close();
    throw error;
  }
}

interface Halves {
  readonly name: string;
  readonly a: HostTensor;
  readonly b: HostTensor;
}

function readHalves(file: string, names: Iterable<string>, get: (name: string) => HostTensor): Halves[] {
  const found = new Map<string, { a?: HostTensor; b?: HostTensor }>();
  for (const name of names) {
    const [, base, half] = HALF.exec(name) ?? [];
    if (base === undefined) {
      const reason = "it is neither lora_a nor lora_b of a matrix";
      throw new FormatError("adapter_unfit", { file, tensor: name, reason });
    }
    const halves = found.get(base) ?? {};
    halves[half as "a" | "b"] = get(name);
    found.set(base, halves);
  }
  return [...found].map(([name, { a, b }]) => {
    if (a === undefined || b === undefined) {
      const tensor = `${name}.lora_${a === undefined ? "a" : "b"}`;
      throw new FormatError("tensor_missing", { file, tensor, expected: "that of the adapter's rank" });
    }
    return { name, a, b };
  });
}

function rankOf(file: string, a: HostTensor, b: HostTensor): number {
  const rank = a.shape[0]!;
  if (a.shape.length === 2 && b.shape.length === 2 && b.shape[1] === rank) return rank;
  const found = `[${a.shape.join(", ")}] and [${b.shape.join(", ")}]`;
  throw new FormatError("tensor_mismatch", {
    file,
    tensor: b.name,
    expected: "[rank, inputs] and [outputs, rank]",
    found,
  });
}

/** The base's heads, by which rows were moved: of the language model, with what configs leave out. */
function headsOf(config: Record<string, unknown>): Record<string, unknown> {
  const text = (config.text_config as Record<string, unknown> | undefined) ?? config;
  const heads = text.num_attention_heads as number;
  return {
    ...text,
    num_key_value_heads: text.num_key_value_heads ?? heads,
    head_dim: text.head_dim ?? (text.hidden_size as number) / heads,
  };
}

function shown(value: unknown): string {
  return String(value ?? "absent").slice(0, 80);
}
