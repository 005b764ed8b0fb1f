// The towers of Llama 4 and LFM2-VL against the textbook: no golden has them.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { TensorSource } from "../../src/core/tensor.js";
import type { Device } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { openDevice } from "../../src/engine/core/load/devices.js";
import { visionOf } from "../../src/models/vision/registry.js";
import { patchesOf } from "../../src/vision/patches.js";
import type { Frame } from "../../src/vision/processor.js";
import { openExactCpu } from "../support/cpu.js";
import {
  attend,
  blocksOf,
  gelu,
  layerNorm,
  linear,
  plus,
  type Rows,
  tanhGelu,
  valuesOf,
} from "../support/plain-tower.js";
import { RandomSource } from "../support/random-source.js";

const cpu = await openExactCpu();
const wasm = await openDevice({ device: "wasm", threads: 2 });
after(() => {
  wasm.close();
  cpu.device?.close();
});

class OwnMemory extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, hasOwnMemory: true, kvDtype: "f32" } as const;
}
const devices: Record<string, Device | null> = {
  reference: new ReferenceDevice(),
  cpu: cpu.device,
  wasm,
  "reference with padded heads": new OwnMemory(),
};

function frameOf(width: number, height: number, seed: number): Frame {
  const pixels = Float32Array.from({ length: 3 * width * height }, (_, i) => Math.sin(i * (0.37 + seed) + (i % 7)));
  return { width, height, pixels };
}

function patchRows(frame: Frame, size: number, isChannelFirst: boolean): Rows {
  const { rows, columns, values } = patchesOf(frame, { size, block: 1, isChannelFirst, repeat: 1 });
  const width = 3 * size * size;
  return Array.from({ length: rows * columns }, (_, i) => Array.from(values.subarray(i * width, (i + 1) * width)));
}

/** Layers with norms before both halves, and biases everywhere. */
function layers(
  source: TensorSource,
  start: Rows,
  count: number,
  headDim: number,
  names: { layer(i: number): string; norms: readonly [string, string]; out: string },
  activation: (v: number) => number,
  eps: number,
  turn: (heads: Rows) => Rows = (heads) => heads,
): Rows {
  let x = start;
  for (let i = 0; i < count; i++) {
    const of = (name: string): number[] => valuesOf(source, `${names.layer(i)}.${name}`);
    const both = (name: string, input: Rows): Rows => linear(input, of(`${name}.weight`), of(`${name}.bias`));
    const normed = (name: string): Rows => layerNorm(x, of(`${name}.weight`), of(`${name}.bias`), eps);
    const seen = normed(names.norms[0]);
    const [q, k, v] = ["q_proj", "k_proj", "v_proj"].map((name) => both(`self_attn.${name}`, seen));
    x = plus(x, both(`self_attn.${names.out}`, attend(turn(q!), turn(k!), v!, headDim, headDim ** -0.5)));
    const inner = both("mlp.fc1", normed(names.norms[1])).map((row) => row.map(activation));
    x = plus(x, both("mlp.fc2", inner));
  }
  return x;
}

async function check(
  config: Record<string, unknown>,
  device: Device,
  frames: readonly Frame[],
  expected: (source: TensorSource, frame: Frame) => Rows,
): Promise<void> {
  const family = visionOf(config)!;
  const source = new RandomSource({ seed: 3 });
  const eyes = family.load(
    family.parseConfig(config, "config.json"),
    { device, source, quantize: "none" },
    { maxTokens: 64 },
  );
  for (const frame of frames) {
    const [{ rows, grid }] = (await eyes.encode([frame])) as [
      { rows: Float32Array; grid: { rows: number; columns: number } },
    ];
    const wanted = expected(source, frame);
    assert.equal(grid.rows * grid.columns, wanted.length);
    const flat = wanted.flat();
    assert.equal(rows.length, flat.length);
    const worst = flat.reduce((most, value, i) => Math.max(most, Math.abs(value - rows[i]!)), 0);
    assert.ok(worst < 5e-4, `${frame.width} x ${frame.height} differs by ${worst}`);
  }
}

// --- Llama 4 -------------------------------------------------------------------------------------------------------

const LLAMA4 = [
  { hidden: 24, heads: 3, patch: 4, side: 4, merge: 2, layers: 2 },
  { hidden: 32, heads: 2, patch: 3, side: 6, merge: 3, layers: 1 },
  { hidden: 16, heads: 4, patch: 5, side: 2, merge: 1, layers: 3 },
];

for (const [i, { hidden, heads, patch, side, merge, layers: depth }] of LLAMA4.entries()) {
  for (const [name, device] of Object.entries(devices)) {
    test(`Llama 4's tower ${i} on ${name}`, { skip: device === null }, () => {
      const config = {
        architectures: ["Llama4ForConditionalGeneration"],
        image_token_index: 5,
        vision_config: {
          hidden_size: hidden,
          num_attention_heads: heads,
          num_hidden_layers: depth,
          intermediate_size: hidden * merge ** 2,
          image_size: side * patch,
          patch_size: patch,
          pixel_shuffle_ratio: 1 / merge,
          projector_input_dim: 28,
          projector_output_dim: 28,
          vision_output_dim: 28,
          rope_parameters: { rope_theta: 500 },
        },
        text_config: { hidden_size: 20 },
      };
      const headDim = hidden / heads;
      return check(config, device!, [frameOf(side * patch, side * patch, i)], (source, frame) => {
        const root = "model.vision_model.";
        const of = (part: string): number[] => valuesOf(source, root + part);
        const embedded = linear(patchRows(frame, patch, true), of("patch_embedding.linear.weight"));
        const table = of("positional_embedding_vlm");
        // The token of no patch comes last.
        let x = [...embedded, of("class_embedding")].map((row, t) => row.map((v, c) => v + table[t * hidden + c]!));
        x = layerNorm(x, of("layernorm_pre.weight"), of("layernorm_pre.bias"), 1e-5);
        /** Neighbouring numbers are a complex one, turned by the column in the first half of a head and by the row in the second. */
        const turn = (all: Rows): Rows =>
          all.map((row, t) =>
            row.map((v, c) => {
              if (t === side * side) return v;
              const pair = Math.floor((c % headDim) / 2);
              const half = headDim / 4;
              const place = pair < half ? t % side : Math.floor(t / side);
              const angle = (place + 1) * 500 ** (-(2 * (pair % half)) / (headDim / 2));
              const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
              return c % 2 === 0 ? v * cos - row[c + 1]! * sin : row[c - 1]! * sin + v * cos;
            }),
          );
        const naming = {
          layer: (l: number) => `${root}model.layers.${l}`,
          norms: ["input_layernorm", "post_attention_layernorm"] as const,
          out: "o_proj",
        };
        x = layers(source, x, depth, headDim, naming, gelu, 1e-5, turn);
        x = layerNorm(x, of("layernorm_post.weight"), of("layernorm_post.bias"), 1e-5).slice(0, -1);
        const adapter = (part: string, input: Rows): Rows =>
          linear(input, of(`vision_adapter.mlp.${part}.weight`)).map((row) => row.map(gelu));
        const tokens = adapter("fc2", adapter("fc1", blocksOf(x, side, merge)));
        return linear(tokens, valuesOf(source, "model.multi_modal_projector.linear_1.weight"));
      });
    });
  }
}

// --- LFM2-VL -------------------------------------------------------------------------------------------------------

/** Each place is the mean of all rows of the table by a triangle over their distance, wider where the grid is smaller than the table. */
function resized(table: readonly number[], side: number, rows: number, columns: number, hidden: number): Rows {
  const shares = (count: number, i: number): number[] => {
    const width = Math.max(side / count, 1);
    const near = Array.from({ length: side }, (_, j) =>
      Math.max(0, 1 - Math.abs(j + 0.5 - (side / count) * (i + 0.5)) / width),
    );
    const sum = near.reduce((a, b) => a + b, 0);
    return near.map((share) => share / sum);
  };
  return Array.from({ length: rows * columns }, (_, t) => {
    const [down, across] = [shares(rows, Math.floor(t / columns)), shares(columns, t % columns)];
    return Array.from({ length: hidden }, (_, c) =>
      down.reduce(
        (sum, dy, y) => sum + dy * across.reduce((line, dx, x) => line + dx * table[(y * side + x) * hidden + c]!, 0),
        0,
      ),
    );
  });
}

const LFM2 = [
  { hidden: 24, heads: 3, patch: 4, side: 4, merge: 2, hasNorm: true, hasBias: true },
  { hidden: 18, heads: 1, patch: 5, side: 3, merge: 3, hasNorm: false, hasBias: false },
];

for (const [i, { hidden, heads, patch, side, merge, hasNorm, hasBias }] of LFM2.entries()) {
  for (const [name, device] of Object.entries(devices)) {
    test(`LFM2-VL's tower ${i} on ${name}`, { skip: device === null }, () => {
      const config = {
        architectures: ["Lfm2VlForConditionalGeneration"],
        image_token_id: 5,
        downsample_factor: merge,
        projector_hidden_size: 28,
        projector_use_layernorm: hasNorm,
        projector_bias: hasBias,
        vision_config: {
          hidden_size: hidden,
          intermediate_size: 40,
          num_attention_heads: heads,
          num_hidden_layers: 2,
          num_patches: side ** 2,
          patch_size: patch,
        },
        text_config: { hidden_size: 20 },
      };
      const unit = patch * merge;
      const frames = [frameOf(2 * unit, unit, 0), frameOf(unit, 3 * unit, 1), frameOf(3 * unit, 3 * unit, 2)];
      return check(config, device!, frames, (source, frame) => {
        const root = "model.vision_tower.";
        const of = (part: string): number[] => valuesOf(source, root + part);
        const [rows, columns] = [frame.height / patch, frame.width / patch];
        const embedded = linear(
          patchRows(frame, patch, false),
          of("embeddings.patch_embedding.weight"),
          of("embeddings.patch_embedding.bias"),
        );
        let x = plus(embedded, resized(of("embeddings.position_embedding.weight"), side, rows, columns, hidden));
        const naming = {
          layer: (l: number) => `${root}encoder.layers.${l}`,
          norms: ["layer_norm1", "layer_norm2"] as const,
          out: "out_proj",
        };
        x = layers(source, x, 2, hidden / heads, naming, tanhGelu, 1e-6);
        x = layerNorm(x, of("post_layernorm.weight"), of("post_layernorm.bias"), 1e-6);
        let tokens = blocksOf(x, columns, merge);
        const own = (part: string): number[] => valuesOf(source, `model.multi_modal_projector.${part}`);
        if (hasNorm) tokens = layerNorm(tokens, own("layer_norm.weight"), own("layer_norm.bias"), 1e-5);
        const step = (part: string, input: Rows): Rows =>
          linear(input, own(`${part}.weight`), hasBias ? own(`${part}.bias`) : null);
        return step(
          "linear_2",
          step("linear_1", tokens).map((row) => row.map(gelu)),
        );
      });
    });
  }
}
