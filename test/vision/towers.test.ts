// Towers that no golden has, against the textbook: LLaVA's features of several layers and its token of no patch, Gemma 4's bounds, Idefics' places.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { TensorSource } from "../../src/core/tensor.js";
import type { Device } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { openDevice } from "../../src/engine/core/load/devices.js";
import { madeTensor } from "../../src/formats/tensor-views.js";
import { bucketPlaces } from "../../src/models/vision/positions.js";
import { visionOf } from "../../src/models/vision/registry.js";
import { tokenGrid } from "../../src/models/vision/vision-model.js";
import { patchesOf } from "../../src/vision/patches.js";
import type { Frame } from "../../src/vision/processor.js";
import { openExactCpu } from "../support/cpu.js";
import {
  attend,
  clamped,
  gelu,
  layerNorm,
  linear,
  plus,
  quickGelu,
  type Rows,
  rmsNorm,
  tanhGelu,
  valuesOf,
} from "../support/plain-tower.js";
import { RandomSource } from "../support/random-source.js";

const cpu = await openExactCpu();
const wasm = await openDevice({ device: "wasm", threads: 2 });
after(() => wasm.close());

/** A device with memory of its own has heads of certain sizes only. */
class PaddingDevice extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, hasOwnMemory: true, kvDtype: "f32" } as const;
}

const devices: Record<string, Device | null> = {
  reference: new ReferenceDevice(),
  cpu: cpu.device,
  wasm,
  "reference with padded heads": new PaddingDevice(),
};

function frameOf(width: number, height: number): Frame {
  const pixels = Float32Array.from({ length: 3 * width * height }, (_, i) => 0.5 + 0.5 * Math.sin(i * 0.37 + (i % 7)));
  return { width, height, pixels };
}

async function encode(config: Record<string, unknown>, source: TensorSource, device: Device, frame: Frame) {
  const family = visionOf(config)!;
  const parsed = family.parseConfig(config, "config.json");
  const spec = family.specOf(parsed);
  const eyes = family.load(parsed, { device, source, quantize: "none" }, { maxTokens: spec.maxTokens ?? 64 });
  return { spec, ...(await eyes.encode([frame]))[0]! };
}

function assertNear(rows: Float32Array, expected: Rows, what: string): void {
  const flat = expected.flat();
  assert.equal(rows.length, flat.length, what);
  const worst = flat.reduce((most, value, i) => Math.max(most, Math.abs(value - rows[i]!)), 0);
  assert.ok(worst < 5e-4, `${what} differs by ${worst}`);
}

const patchRows = (frame: Frame, size: number, isChannelFirst: boolean): Rows => {
  const { rows, columns, values } = patchesOf(frame, { size, block: 1, isChannelFirst, repeat: 1 });
  const width = 3 * size * size;
  return Array.from({ length: rows * columns }, (_, i) => Array.from(values.subarray(i * width, (i + 1) * width)));
};

// --- LLaVA ---------------------------------------------------------------------------------------------------------

const LLAVA_TOWER = {
  hidden_size: 24,
  intermediate_size: 40,
  num_attention_heads: 3,
  num_hidden_layers: 3,
  image_size: 21,
};

/** Hidden states before the first layer and after each. */
function clipStates(source: RandomSource, patches: Rows, isClip: boolean): Rows[] {
  const root = "model.vision_tower.";
  const of = (name: string): number[] => valuesOf(source, root + name);
  const bias = isClip ? null : of("embeddings.patch_embedding.bias");
  const embedded = linear(patches, of("embeddings.patch_embedding.weight"), bias);
  const table = of("embeddings.position_embedding.weight");
  let x = isClip ? [of("embeddings.class_embedding"), ...embedded] : embedded;
  x = x.map((row, t) => row.map((v, i) => v + table[t * 24 + i]!));
  const eps = isClip ? 1e-5 : 1e-6;
  if (isClip) x = layerNorm(x, of("pre_layrnorm.weight"), of("pre_layrnorm.bias"), eps);
  const states = [x];
  for (let layer = 0; layer < 3; layer++) {
    const at = `encoder.layers.${layer}.`;
    const both = (name: string, input: Rows): Rows => linear(input, of(`${at}${name}.weight`), of(`${at}${name}.bias`));
    const normed = (name: string, input: Rows): Rows =>
      layerNorm(input, of(`${at}${name}.weight`), of(`${at}${name}.bias`), eps);
    const seen = normed("layer_norm1", x);
    const [q, k, v] = ["q_proj", "k_proj", "v_proj"].map((name) => both(`self_attn.${name}`, seen)) as [
      Rows,
      Rows,
      Rows,
    ];
    x = plus(x, both("self_attn.out_proj", attend(q, k, v, 8, 8 ** -0.5)));
    const inner = both("mlp.fc1", normed("layer_norm2", x)).map((row) => row.map(isClip ? quickGelu : tanhGelu));
    x = plus(x, both("mlp.fc2", inner));
    states.push(x);
    if (!source.tensors.has(`${root}encoder.layers.${layer + 1}.layer_norm1.weight`)) break; // layers that nothing needs are not loaded
  }
  return states;
}

const LLAVA_CASES: Record<string, { isClip: boolean; layers: number | number[]; strategy: "default" | "full" }> = {
  "CLIP, two layers": { isClip: true, layers: [1, 2], strategy: "default" },
  "CLIP, layers in any order, one of them twice, the first before all": {
    isClip: true,
    layers: [-1, 0, 2, 2],
    strategy: "default",
  },
  "CLIP, the token of no patch too": { isClip: true, layers: -2, strategy: "full" },
  "CLIP, that of several layers": { isClip: true, layers: [-2, -1], strategy: "full" },
  "SigLIP, all patches": { isClip: false, layers: -1, strategy: "full" },
  "SigLIP, without the first patch": { isClip: false, layers: [-1, 1], strategy: "default" },
};

for (const [what, { isClip, layers, strategy }] of Object.entries(LLAVA_CASES)) {
  for (const [name, device] of Object.entries(devices)) {
    test(`LLaVA with ${what}, on ${name}`, { skip: device === null }, async () => {
      const config = {
        architectures: ["LlavaForConditionalGeneration"],
        image_token_index: 5,
        vision_feature_layer: layers,
        vision_feature_select_strategy: strategy,
        vision_config: {
          ...LLAVA_TOWER,
          model_type: isClip ? "clip_vision_model" : "siglip_vision_model",
          patch_size: 7,
        },
        text_config: { hidden_size: 20 },
      };
      const source = new RandomSource({ seed: 7 });
      const frame = frameOf(21, 21);
      const { rows, grid, spec } = await encode(config, source, device!, frame);
      const states = clipStates(source, patchRows(frame, 7, true), isClip);
      const wanted = (Array.isArray(layers) ? layers : [layers]).map((layer) => states[layer < 0 ? 4 + layer : layer]!);
      const from = strategy === "default" ? 1 : 0;
      const features = wanted[0]!.map((_, t) => wanted.flatMap((state) => state[t]!)).slice(from);
      const root = "model.multi_modal_projector.";
      const layer = (part: string, x: Rows): Rows =>
        linear(x, valuesOf(source, `${root}${part}.weight`), valuesOf(source, `${root}${part}.bias`));
      const expected = layer(
        "linear_2",
        layer("linear_1", features).map((row) => row.map(gelu)),
      );
      assertNear(rows, expected, what);
      assert.equal(grid.rows * grid.columns, expected.length);
      assert.deepEqual(tokenGrid(spec, frame), grid);
    });
  }
}

// --- Gemma 4 -------------------------------------------------------------------------------------------------------

/** Bounds that bind: some of what a matrix takes and gives lies beyond them. */
function bounded(source: RandomSource, isSame: boolean): TensorSource {
  const edge = (name: string): number => {
    const part = isSame ? "" : name;
    const size = 0.4 + ((0.05 * [...part].reduce((sum, c) => sum + c.charCodeAt(0), 0)) % 0.4);
    return name.endsWith("min") ? -size : size * 1.1;
  };
  return {
    path: source.path,
    has: (name) => source.has(name),
    get: (name, shape) =>
      /put_(min|max)$/.test(name)
        ? madeTensor(name, "f32", [], () => new Uint8Array(Float32Array.of(edge(name)).buffer))
        : source.get(name, shape),
    names: () => source.names(),
    close: () => source.close(),
  };
}

for (const isSame of [true, false]) {
  for (const [name, device] of Object.entries(devices)) {
    test(`Gemma 4 with ${isSame ? "equal bounds" : "bounds of each matrix"}, on ${name}`, {
      skip: device === null,
    }, async () => {
      const config = {
        architectures: ["Gemma4ForConditionalGeneration"],
        image_token_id: 5,
        vision_config: {
          ...{
            hidden_size: 24,
            intermediate_size: 40,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
          },
          ...{
            head_dim: 8,
            patch_size: 4,
            pooling_kernel_size: 2,
            position_embedding_size: 9,
            use_clipped_linears: true,
          },
        },
        text_config: { hidden_size: 20, use_bidirectional_attention: "vision" },
      };
      const inner = new RandomSource({ seed: 11 });
      const source = bounded(inner, isSame);
      const frame = frameOf(24, 16);
      const { rows, spec } = await encode(config, source, device!, frame);
      assert.ok(spec.isWhole);
      assertNear(rows, gemma4(source, frame), "rows");
    });
  }
}

function gemma4(source: TensorSource, frame: Frame): Rows {
  const root = "model.vision_tower.";
  const of = (name: string): number[] => valuesOf(source, root + name);
  const patches = patchRows(frame, 4, false).map((row) => row.map((v) => 2 * (v - 0.5)));
  const [rows, columns] = [4, 6];
  const table = of("patch_embedder.position_embedding_table"); // [2, 9, 24]
  let x = linear(patches, of("patch_embedder.input_proj.weight")).map((row, t) =>
    row.map((v, i) => v + table[(t % columns) * 24 + i]! + table[(9 + Math.floor(t / columns)) * 24 + i]!),
  );
  const turn = (heads: Rows): Rows =>
    heads.map((row, t) =>
      row.map((v, i) => {
        const within = i % 8;
        const place = within < 4 ? t % columns : Math.floor(t / columns); // columns first
        const angle = place * 100 ** (-((within % 2) * 2) / 4);
        const partner = within % 4 < 2 ? -row[i + 2]! : row[i - 2]!;
        return v * Math.cos(angle) + partner * Math.sin(angle);
      }),
    );
  const perHead = (heads: Rows, weight: number[] | null): Rows =>
    heads.map((row) => {
      const parts = Array.from({ length: row.length / 8 }, (_, h) => row.slice(8 * h, 8 * h + 8));
      return rmsNorm(parts, weight, 1e-6).flat();
    });
  for (let layer = 0; layer < 2; layer++) {
    const at = `encoder.layers.${layer}.`;
    const norm = (name: string, input: Rows): Rows => rmsNorm(input, of(`${at}${name}.weight`), 1e-6);
    const bound = (name: string): number => of(`${at}${name}`)[0]!;
    const kept = (name: string, input: Rows): Rows => {
      const taken = clamped(input, bound(`${name}.input_min`), bound(`${name}.input_max`));
      return clamped(
        linear(taken, of(`${at}${name}.linear.weight`)),
        bound(`${name}.output_min`),
        bound(`${name}.output_max`),
      );
    };
    const seen = norm("input_layernorm", x);
    const q = turn(perHead(kept("self_attn.q_proj", seen), of(`${at}self_attn.q_norm.weight`)));
    const k = turn(perHead(kept("self_attn.k_proj", seen), of(`${at}self_attn.k_norm.weight`)));
    const v = perHead(kept("self_attn.v_proj", seen), null);
    x = plus(x, norm("post_attention_layernorm", kept("self_attn.o_proj", attend(q, k, v, 8, 1))));
    const next = norm("pre_feedforward_layernorm", x);
    const up = kept("mlp.up_proj", next);
    const gated = kept("mlp.gate_proj", next).map((row, t) => row.map((g, i) => tanhGelu(g) * up[t]![i]!));
    x = plus(x, norm("post_feedforward_layernorm", kept("mlp.down_proj", gated)));
  }
  const pooled = Array.from({ length: (rows / 2) * (columns / 2) }, (_, token) => {
    const [top, left] = [2 * Math.floor(token / 3), 2 * (token % 3)];
    const four = [0, 1, columns, columns + 1].map((step) => x[top * columns + left + step]!);
    return four[0]!.map((_, i) => (four.reduce((sum, row) => sum + row[i]!, 0) / 4) * Math.sqrt(24));
  });
  return linear(rmsNorm(pooled, null, 1e-6), valuesOf(source, "model.embed_vision.embedding_projection.weight"));
}

// --- Idefics 3 and SmolVLM -----------------------------------------------------------------------------------------

test("places along an edge are found as Idefics finds them, in f32", () => {
  for (const count of [1, 2, 4, 16, 26, 27, 32, 64]) {
    const places = bucketPlaces(count);
    assert.equal(places.length, count);
    for (const [i, place] of places.entries()) assert.ok(place === i || place === i - 1, `${count}: ${i} at ${place}`);
  }
  assert.deepEqual(
    Array.from(bucketPlaces(32)),
    Array.from({ length: 32 }, (_, i) => i),
  );
});
