// Every GGUF architecture, tried by variation: what a plain set of keys amounts to as a configuration, what changes when one of the keys
// that were read says something else or one of the tensors that were asked for is there, and what each of its tensors becomes.

import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import { FormatError } from "../../src/core/errors.js";
import type { HostTensor, TensorSource } from "../../src/core/tensor.js";
import { GGUF_ARCHITECTURES, ggufConfig } from "../../src/formats/gguf/gguf-config.js";
import { ggufTensors } from "../../src/formats/gguf/gguf-tensors.js";
import { madeTensor, TensorTable } from "../../src/formats/tensor-views.js";

type Config = Record<string, unknown>;

const BASE: Readonly<Record<string, unknown>> = {
  embedding_length: 24,
  block_count: 6,
  context_length: 64,
  feed_forward_length: 32,
  "attention.head_count": 4,
  "rope.scaling.factor": 4,
  "rope.scaling.original_context_length": 32,
};
/** Layers of one half each: attention, a mixer, a feed-forward. */
const HALVES = { "attention.head_count_kv": [2, 0, 0, 2, 0, 0], feed_forward_length: [0, 0, 32, 0, 0, 16] };
/** What no message tells. */
const NEEDED: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  mistral4: { expert_weights_norm: true },
  nemotron_h: HALVES,
  nemotron_h_moe: { ...HALVES, expert_shared_feed_forward_length: 16 },
};
const VALUES: readonly unknown[] = [undefined, 0, 1, 2.5, false, true, "yarn", [0, 2, 0, 2, 0, 2], [5, 5]];

/** Ascending numbers, so that it shows where each went. */
function ascending(name: string, shape: readonly number[]): HostTensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = /^rope_freqs/.test(name) ? (i: number) => (2 * i < count ? 1 : 1e30) : (i: number) => i;
  return madeTensor(
    name,
    "f32",
    shape,
    () => new Uint8Array(Float32Array.from({ length: count }, (_, i) => values(i)).buffer),
  );
}

/** Holds the tensors named, and notes which others were asked for. */
class Tensors implements TensorSource {
  readonly path = "f.gguf";
  readonly asked = new Set<string>();
  readonly #held: ReadonlySet<string>;

  constructor(held: Iterable<string>) {
    this.#held = new Set(["token_embd.weight", ...held]);
  }

  has(name: string): boolean {
    this.asked.add(name);
    return this.#held.has(name);
  }

  get(name: string, shape: readonly number[] = [/^token_embd/.test(name) ? 50 : 8, 24]): HostTensor {
    return ascending(name, /^rope_f/.test(name) && shape.length === 2 ? [4] : shape.map(Math.ceil));
  }

  names(): Iterable<string> {
    return this.#held;
  }

  close(): void {}
}

interface Tried {
  readonly config: Config | null;
  readonly shown: string;
  readonly error: FormatError | null;
  readonly keys: ReadonlySet<string>;
  readonly tensors: ReadonlySet<string>;
}

function tryConfig(architecture: string, keys: ReadonlyMap<string, unknown>, held: readonly string[]): Tried {
  const read = new Set<string>();
  const metadata = new (class extends Map<string, unknown> {
    override get(key: string): unknown {
      read.add(key);
      return super.get(key);
    }
  })([["general.architecture", architecture], ...keys]);
  const source = new Tensors(held);
  let config: Config | null = null;
  let error: FormatError | null = null;
  try {
    config = ggufConfig(metadata, source);
  } catch (thrown) {
    if (!(thrown instanceof FormatError)) throw thrown;
    error = thrown;
  }
  read.delete("general.architecture");
  const shown =
    error === null ? "" : `! ${error.message.replace(/^.*?f\.gguf:? ?/, "").replaceAll(`${architecture}.`, "")}`;
  return { config, shown: shown.split(` for ${architecture}`)[0]!, error, keys: read, tensors: source.asked };
}

/** Keys with which the architecture has a configuration: what it misses is given a number of its own, or the one it asks for. */
function plainKeys(architecture: string): Map<string, unknown> {
  const own = { ...BASE, ...NEEDED[architecture] };
  const keys = new Map(Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value]));
  for (let tries = 0; tries < 60; tries++) {
    const { error } = tryConfig(architecture, keys, []);
    if (error === null) break;
    const { param, known } = error.details as { param?: string; known?: string };
    if (param === undefined) break;
    const full = param.startsWith(`${architecture}.xielu.`) ? param.slice(architecture.length + 1) : param;
    if (known?.startsWith("for ")) {
      keys.delete(full); // nobody reads it
      continue;
    }
    const wanted = /^\d+$/.test(known ?? "") ? Number(known) : 8 + tries;
    if (keys.get(full) === wanted) break;
    keys.set(full, wanted);
  }
  return keys;
}

function difference(from: Config, to: Config): string {
  const changed = [...new Set([...Object.keys(from), ...Object.keys(to)])].flatMap((field) => {
    const [before, after] = [JSON.stringify(from[field]), JSON.stringify(to[field])];
    return before === after ? [] : [after === undefined ? `-${field}` : `${field}: ${after}`];
  });
  return changed.join(", ");
}

function tensorsOf(architecture: string, config: Config): [string, string][] {
  const { naming: given } = GGUF_ARCHITECTURES[architecture]!;
  const naming = typeof given === "function" ? given(config) : given;
  const names = [
    ...Object.keys(naming.model).map((part) => `${part}.weight`),
    ...Object.keys(naming.layer).flatMap((part) => [`blk.1.${part}.weight`, `blk.1.${part}.bias`, `blk.1.${part}`]),
    ...["gate", "up", "down", "gate_up"].flatMap((part) => [
      `blk.1.ffn_${part}_exps.weight`,
      `blk.1.ffn_${part}.1.weight`,
    ]),
    ...[
      "rope_freqs.weight",
      "blk.1.nextn.x.weight",
      "blk.9.attn_norm.weight",
      "cls.output.weight",
      "nosuch.weight",
      "blk.1.nosuch.weight",
    ],
  ];
  return names.map((name) => {
    const shape = /_exps/.test(name) ? [2, 4, 3] : /norm|bias/.test(name) ? [24] : [24, 24];
    const table = new TensorTable("f.gguf");
    table.add(ascending(name, shape));
    try {
      const made = ggufTensors(architecture, { ...config, xielu: {} }, table);
      const outputs = [...made.names()].map((own) => {
        const tensor = made.get(own);
        const values = [...toFloat32(tensor)];
        const some = values
          .filter((_, i) => i % Math.max(1, Math.floor(values.length / 5)) === 0)
          .map((value) => Number(value.toPrecision(4)));
        return `${own} [${tensor.shape}] ${some.join(" ")}`;
      });
      return [name, outputs.join("; ")];
    } catch (error) {
      return [name, `! ${(error as Error).message.split(". Supported")[0]}`];
    }
  });
}

/** Lines of architectures, each followed by the lines of what was found to be true of just these. */
export function ggufVariations(): string[] {
  const lines = new Map<string, string[]>();
  const note = (line: string, architecture: string): void => {
    lines.set(line, [...(lines.get(line) ?? []), architecture]);
  };
  for (const architecture of Object.keys(GGUF_ARCHITECTURES)) {
    const keys = plainKeys(architecture);
    const base = tryConfig(architecture, keys, []);
    if (base.config === null) {
      note(base.shown, architecture);
      continue;
    }
    for (const [field, value] of Object.entries(base.config)) note(`${field}: ${JSON.stringify(value)}`, architecture);
    for (const key of [...base.keys].sort()) {
      for (const value of VALUES) {
        const varied = new Map(keys);
        if (value === undefined) varied.delete(key);
        else varied.set(key, value);
        const { config, shown } = tryConfig(architecture, varied, []);
        const result = config === null ? shown : difference(base.config, config);
        const name = key.replace(`${architecture}.`, "");
        if (result !== "") note(`${name} = ${JSON.stringify(value) ?? "nothing"} -> ${result}`, architecture);
      }
    }
    for (const tensor of base.tensors) {
      const { config, shown } = tryConfig(architecture, keys, [tensor]);
      const result = config === null ? shown : difference(base.config, config);
      if (result !== "") note(`with ${tensor} -> ${result}`, architecture);
    }
    for (const [name, result] of tensorsOf(architecture, base.config)) note(`${name} => ${result}`, architecture);
  }
  const groups = new Map<string, string[]>();
  for (const [line, architectures] of lines) {
    const names = architectures.join(" ");
    groups.set(names, [...(groups.get(names) ?? []), `  ${line}`]);
  }
  return [...groups].flatMap(([names, found]) => [names, ...found]);
}
