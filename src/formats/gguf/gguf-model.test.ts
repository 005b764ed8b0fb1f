// GGUF files made of the golden checkpoints, as a converter would: read back, they must be the checkpoint they came from.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { convertToGguf } from "../../../test/support/gguf-converter.js";
import { FIRST_DECODERS } from "../../../test/support/gguf-names.js";
import { type GgufValue, writeGguf } from "../../../test/support/gguf-writer.js";
import { toFloat32 } from "../../core/dequantize/dequantize.js";
import { FormatError } from "../../core/errors.js";
import { ModelFolder } from "../hf/model-folder.js";
import { openGgufModel } from "./gguf-model.js";

const GOLDENS = "../shared/goldens";
const skip = existsSync(GOLDENS) ? false : `no golden checkpoints at ${GOLDENS}`;
const folder = mkdtempSync(join(tmpdir(), "pagoda-gguf-model-"));
after(() => rmSync(folder, { recursive: true }));

function save(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

/** What a GGUF file does not say, or says in its own way: checked apart. */
const OWN_WAY = new Set([
  ...["rope_parameters", "eos_token_id", "intermediate_size"],
  ...["no_rope_layers", "no_rope_layer_interval"], // always every fourth; the golden has others
]);

for (const name of [...FIRST_DECODERS, "smollm3"]) {
  test(`${name}: configuration and tensors are those of the Hugging Face folder`, { skip }, () => {
    const hf = new ModelFolder(join(GOLDENS, name));
    const model = openGgufModel(save(`${name}.gguf`, convertToGguf(hf.path, "f32")));

    for (const [key, value] of Object.entries(model.config)) {
      const expected = hf.config[key];
      if (OWN_WAY.has(key) || expected === undefined || expected === null) continue;
      if (typeof value === "number") assert.equal(Math.fround(value), Math.fround(expected as number), key);
      else assert.deepEqual(value, expected, key);
    }
    assert.deepEqual(model.config.eos_token_id, [hf.config.eos_token_id]);
    const rope = hf.config.rope_parameters as Record<string, unknown> | undefined;
    if (rope?.rope_type !== "llama3")
      assert.deepEqual(withoutDefaults(model.config.rope_parameters), withoutDefaults(rope));

    const source = hf.openTensors();
    const expected = new Map<string, Float32Array>();
    for (const tensor of source.names()) {
      for (const [own, values] of perExpert(tensor, source.get(tensor).shape, toFloat32(source.get(tensor)))) {
        expected.set(own, values);
      }
    }
    assert.deepEqual([...model.source.names()].sort(), [...expected.keys()].sort());
    for (const [own, values] of expected) {
      const tensor = model.source.get(own);
      const read = toFloat32(tensor);
      if (name === "gpt2" && tensor.shape.length === 2 && own.includes(".h.")) {
        assert.deepEqual(read, transposed(values, tensor.shape[1]!, tensor.shape[0]!), own); // conv1d_weights: false
      } else if (name.startsWith("gemma") && own.endsWith("norm.weight")) {
        // w + 1 was rounded when the file was made; what counts is that adding one gives the file's value again.
        assert.deepEqual(
          read.map((w) => w + 1),
          values.map((w) => w + 1),
          own,
        );
      } else {
        assert.deepEqual(read, values, own);
      }
    }
    source.close();
  });
}

test("llama 3's frequency factors come from the file, for every length", { skip }, () => {
  const hf = new ModelFolder(join(GOLDENS, "llama-tied-rope3"));
  const { config } = openGgufModel(save("rope3.gguf", convertToGguf(hf.path, "f32")));
  const rope = config.rope_parameters as Record<string, unknown>;
  assert.equal(rope.rope_type, "longrope");
  assert.equal(rope.attention_factor, 1);
  assert.deepEqual(rope.short_factor, rope.long_factor);
  const factors = rope.short_factor as number[];
  assert.equal(factors[0], 1);
  assert.equal(factors.at(-1), 8);
  assert.ok(factors.some((f) => f > 1 && f < 8));
});

test("rope scaling as the keys say it", () => {
  const rope = (more: Record<string, number | string>) => {
    const metadata = { "general.architecture": "llama", ...SHAPE };
    for (const [key, value] of Object.entries(more)) Object.assign(metadata, { [`llama.rope.${key}`]: value });
    return openGgufModel(save("rope.gguf", writeGguf(metadata, [embedding]))).config.rope_parameters;
  };
  const theta = { rope_theta: 10_000 };
  assert.deepEqual(rope({}), { ...theta, rope_type: "default" });
  assert.deepEqual(rope({ "scaling.factor": 0 }), { ...theta, rope_type: "default" });
  assert.deepEqual(rope({ "scaling.type": "none", "scaling.factor": 4 }), { ...theta, rope_type: "default" });
  assert.deepEqual(rope({ "scaling.factor": 4 }), { ...theta, rope_type: "linear", factor: 4 });
  assert.deepEqual(rope({ dimension_count: 8 }), { ...theta, partial_rotary_factor: 0.5, rope_type: "default" });
  const yarn = { "scaling.type": "yarn", "scaling.factor": 4, "scaling.original_context_length": 32 };
  assert.deepEqual(rope({ ...yarn, "scaling.attn_factor": 0.5 }), {
    ...theta,
    rope_type: "yarn",
    factor: 4,
    original_max_position_embeddings: 32,
    beta_fast: 32,
    beta_slow: 1,
    attention_factor: 0.5 * (0.1 * Math.log(4) + 1),
  });
  const factorOf = (fields: Record<string, number>) =>
    (rope({ ...yarn, ...fields }) as { attention_factor?: number }).attention_factor;
  assert.equal(factorOf({ "scaling.yarn_attn_factor": 1.25 }), 1.25);
  assert.equal(factorOf({ "scaling.yarn_attn_factor": 1 }), 1);
  assert.equal(factorOf({ "scaling.yarn_attn_factor": 1.25, "scaling.attn_factor": 2 }), 2.5);
});

test("quantised matrices keep their encoding when rows are permuted and experts are taken apart", { skip }, () => {
  for (const name of ["llama", "qwen3-moe", "gpt-oss"]) {
    const hf = new ModelFolder(join(GOLDENS, name));
    for (const [dtype, bound] of [
      ["q8_0", 0.6 / 127],
      ["q4_0", 1.1 / 8],
    ] as const) {
      const model = openGgufModel(save(`${name}-${dtype}.gguf`, convertToGguf(hf.path, dtype)));
      const source = hf.openTensors();
      let quantised = 0;
      for (const tensor of source.names()) {
        for (const [own, values] of perExpert(tensor, source.get(tensor).shape, toFloat32(source.get(tensor)))) {
          const read = model.source.get(own);
          if (read.dtype !== dtype) continue;
          quantised++;
          assert.equal(read.byteLength, (values.length / 32) * (dtype === "q8_0" ? 34 : 18));
          const decoded = toFloat32(read);
          for (let i = 0; i < values.length; i += 32) {
            const max = Math.max(...values.subarray(i, i + 32).map(Math.abs));
            for (let j = i; j < i + 32; j++)
              assert.ok(Math.abs(decoded[j]! - values[j]!) <= max * bound, `${own} ${j}`);
          }
        }
      }
      assert.ok(quantised > 10, `${quantised} tensors in ${dtype}`);
      source.close();
    }
  }
});

test("experts of a stack, and everything not rearranged, can be mapped from the file", { skip }, () => {
  const path = save("moe.gguf", convertToGguf(join(GOLDENS, "qwen3-moe"), "q8_0"));
  const { source } = openGgufModel(path);
  const first = source.get("model.layers.1.mlp.experts.0.up_proj.weight");
  const third = source.get("model.layers.1.mlp.experts.3.up_proj.weight");
  assert.equal(third.file!.path, path);
  assert.equal(third.file!.offset - first.file!.offset, 3 * first.byteLength);
});

const SHAPE = {
  "llama.context_length": 64,
  "llama.embedding_length": 32,
  "llama.block_count": 1,
  "llama.feed_forward_length": 32,
  "llama.attention.head_count": 2,
};
const embedding = { name: "token_embd.weight", dtype: "f32", shape: [4, 32], bytes: new Uint8Array(512) } as const;

/** Opening a small llama file with these changes fails with this message. */
function refuses(
  metadata: Parameters<typeof writeGguf>[0],
  pattern: RegExp,
  tensors: Parameters<typeof writeGguf>[1] = [],
) {
  const bytes = writeGguf({ "general.architecture": "llama", ...SHAPE, ...metadata }, [embedding, ...tensors]);
  assert.throws(
    () => openGgufModel(save("bad.gguf", bytes)),
    (error: unknown) => {
      assert.ok(error instanceof FormatError);
      assert.match(error.message, pattern);
      return true;
    },
  );
}

test("what cannot be honoured is refused by name", () => {
  refuses({ "general.architecture": "mamba" }, /Architecture mamba is not supported\. Supported: llama, qwen2/);
  refuses({ "llama.attention.head_count": "eight" }, /llama\.attention\.head_count = eight/);
  refuses({ "llama.block_count": 0 }, /llama\.block_count = 0 is not supported.*whole number/);
  refuses({ "llama.block_count": 4_000_000_000 }, /block_count = 4000000000 is not supported.*1 to 10000/);
  refuses({ "llama.expert_count": 4_000_000_000 }, /expert_count = 4000000000 is not supported.*1 to 10000/);
  refuses({ "llama.attention.head_count_kv": [2, 1] }, /head_count_kv = 2,1 is not supported/);
  refuses({ "llama.rope.scaling.type": "spiral" }, /llama\.rope\.scaling\.type = spiral/);
  refuses({ "llama.logit_scale": 2.5 }, /llama\.logit_scale = 2\.5 is not supported/);
  refuses({ "llama.attention.value_length": 8 }, /value_length = 8 is not supported. Supported: 16/);
  const tensor = (name: string, shape: number[]) =>
    ({ name, dtype: "f32", shape, bytes: new Uint8Array(4 * shape.reduce((a, b) => a * b)) }) as const;
  refuses({}, /tensor = blk\.0\.attn_alibi\.weight is not supported/, [tensor("blk.0.attn_alibi.weight", [2])]);
  refuses({}, /tensor = __proto__\.weight is not supported/, [tensor("__proto__.weight", [2])]);
  refuses({}, /blk\.0\.ffn_up_exps\.weight is not supported/, [tensor("blk.0.ffn_up_exps.weight", [2, 2, 2])]);
  refuses({}, /blk\.0\.attn_q\.weight: expected rows of 2 heads, found \[3, 32\]/, [
    tensor("blk.0.attn_q.weight", [3, 32]),
  ]);
});

test("scales beside matrices and stacks of experts are multiplied in", () => {
  // A block of NVFP4: four e4m3 scales, halved, then four times 16 codes of e2m1, low nibbles first.
  const levels = [0, 1, 2, 3, 4, 6, 8, 12].flatMap((level) => level / 2);
  const block = Uint8Array.from({ length: 36 }, (_, i) => (i < 4 ? 0x38 + i : (i * 37) & 0xff));
  const plain = Array.from({ length: 64 }, (_, i) => {
    const part = Math.floor(i / 16);
    const byte = block[4 + part * 8 + (i % 8)]!;
    const code = i % 16 < 8 ? byte & 15 : byte >> 4;
    return (code & 8 ? -1 : 1) * levels[code & 7]! * (1 + part / 8); // 0x38 + p is 1 + p / 8 in e4m3
  });
  const numbers = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
  const of = (name: string, dtype: "f32" | "nvfp4", shape: number[], bytes: Uint8Array) => ({
    name,
    dtype,
    shape,
    bytes,
  });
  const tensors = [
    of("token_embd.weight", "f32", [4, 64], new Uint8Array(4 * 256)),
    of("blk.0.attn_v.weight", "nvfp4", [1, 64], block),
    of("blk.0.attn_v.scale", "f32", [1], numbers(0.3)),
    of("blk.0.attn_v.input_scale", "f32", [1], numbers(7)),
    of("blk.0.ffn_down_exps.weight", "nvfp4", [2, 1, 64], Uint8Array.from([...block, ...block])),
    of("blk.0.ffn_down_exps.scale", "f32", [2], numbers(0.25, -3)),
  ];
  const metadata = {
    "general.architecture": "llama",
    ...SHAPE,
    "llama.embedding_length": 64,
    "llama.expert_count": 2,
    "llama.expert_used_count": 1,
  };
  const { source } = openGgufModel(save("scales.gguf", writeGguf(metadata, tensors)));
  const check = (name: string, scale: number) => {
    const found = toFloat32(source.get(name));
    plain.forEach((value, i) => {
      const expected = value * Math.fround(scale);
      assert.ok(
        Math.abs(found[i]! - expected) <= Math.abs(expected) * 2 ** -11,
        `${name}[${i}]: ${found[i]}, ${expected}`,
      );
    });
  };
  check("model.layers.0.self_attn.v_proj.weight", 0.3);
  check("model.layers.0.block_sparse_moe.experts.0.w2.weight", 0.25);
  check("model.layers.0.block_sparse_moe.experts.1.w2.weight", -3);
  assert.equal([...source.names()].filter((name) => name.includes("scale")).length, 0);
  const wrong = [...tensors.slice(1, 2), of("blk.0.attn_v.scale", "f32", [2], numbers(1, 2))];
  refuses({ "llama.embedding_length": 64 }, /blk\.0\.attn_v\.scale.*expected 1 number, found 2/, wrong);
});

test("a key that says nothing does no harm", () => {
  const metadata = { "general.architecture": "llama", ...SHAPE, "llama.logit_scale": 0, "llama.vocab_size": 4 };
  const { config } = openGgufModel(save("ok.gguf", writeGguf(metadata, [embedding])));
  assert.equal(config.tie_word_embeddings, true);
  assert.deepEqual(config.architectures, ["LlamaForCausalLM"]);
});

test("what the makers suggest for sampling", () => {
  const hints = { "general.sampling.temp": 0.25, "general.sampling.top_k": 40, "general.sampling.top_p": "high" };
  const file = writeGguf({ "general.architecture": "llama", ...SHAPE, ...hints }, [embedding]);
  assert.deepEqual(openGgufModel(save("hints.gguf", file)).sampling, { temperature: 0.25, topK: 40 });
  const sampling = (temp: GgufValue) =>
    openGgufModel(
      save(
        "h.gguf",
        writeGguf({ "general.architecture": "llama", ...SHAPE, "general.sampling.temp": temp }, [embedding]),
      ),
    ).sampling;
  const usual = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 };
  assert.deepEqual(sampling(0), { temperature: 0 });
  for (const value of [-0.5, Number.NaN, Infinity, "1", true]) assert.deepEqual(sampling(value), usual, String(value));
  const all = { temp: 0.5, top_k: 1, top_p: 0.25, min_p: 0.125, penalty_repeat: 1.5 };
  const keys = Object.fromEntries(Object.entries(all).map(([key, value]) => [`general.sampling.${key}`, value]));
  const full = writeGguf({ "general.architecture": "llama", ...SHAPE, ...keys }, [embedding]);
  assert.deepEqual(openGgufModel(save("h.gguf", full)).sampling, {
    ...{ temperature: 0.5, topK: 1, topP: 0.25, minP: 0.125, repetitionPenalty: 1.5 },
  });
});

test("a model is named by its file, without the number of the part; names of labels do no harm", () => {
  const named = (file: string, more: Record<string, GgufValue> = {}) =>
    openGgufModel(save(file, writeGguf({ "general.architecture": "llama", ...SHAPE, ...more }, [embedding]))).name;
  assert.equal(named("my.model-Q4_0.gguf"), "my.model-Q4_0");
  assert.equal(named("x-001-of-002.gguf"), "x-001-of-002");
  assert.equal(named("p-00001-of-00001.gguf", { "split.count": 1 }), "p");
  assert.equal(named("l.gguf", { "llama.classifier.output_labels": ["a", "b"], "llama.pooling_type": 1 }), "l");
});

test("factors of a file divide its frequencies, and a linear scaling slows them", () => {
  const half = SHAPE["llama.embedding_length"] / SHAPE["llama.attention.head_count"] / 2;
  const factors = Float32Array.from({ length: half }, (_, i) => i + 1);
  const tensor = {
    name: "rope_freqs.weight",
    dtype: "f32",
    shape: [half],
    bytes: new Uint8Array(factors.buffer),
  } as const;
  const rope = (more: Record<string, GgufValue>) => {
    const file = writeGguf({ "general.architecture": "llama", ...SHAPE, ...more }, [embedding, tensor]);
    return openGgufModel(save("f.gguf", file)).config.rope_parameters as Record<string, unknown>;
  };
  const scaled = (more: Record<string, GgufValue>) => {
    const { rope_type, short_factor, long_factor } = rope(more);
    assert.deepEqual([rope_type, long_factor], ["longrope", short_factor]);
    return short_factor;
  };
  assert.deepEqual(scaled({}), [...factors]);
  const factor = { "llama.rope.scaling.factor": 2 };
  assert.deepEqual(scaled(factor), [...factors.map((f) => 2 * f)]);
  assert.deepEqual(scaled({ ...factor, "llama.rope.scaling.type": "none" }), [...factors]);
  assert.throws(() => rope({ "llama.rope.scaling.type": "yarn" }), /rope\.scaling\.type = yarn/);
});

test("yarn's extrapolation is all or nothing here", () => {
  const yarn = { "llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2 };
  const open = (ext: number) => {
    const more = { ...yarn, "llama.rope.scaling.yarn_ext_factor": ext };
    return openGgufModel(
      save("y.gguf", writeGguf({ "general.architecture": "llama", ...SHAPE, ...more }, [embedding])),
    );
  };
  assert.equal((open(1).config.rope_parameters as { rope_type: string }).rope_type, "yarn");
  assert.throws(() => open(2), /yarn_ext_factor = 2 is not supported. Supported: 1/);
});

test("3,000 damaged models: a FormatError or a model, never anything else", () => {
  const names = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"];
  const tensors = names.map((name) => ({ ...embedding, name: `blk.0.${name}.weight` }));
  const good = writeGguf({ "general.architecture": "llama", ...SHAPE, "llama.rope.freq_base": 500.5 }, [
    embedding,
    ...tensors,
  ]);
  const headerBytes = good.length - 8 * 512;
  let s = 99;
  const random = (below: number) => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return (s >>> 0) % below;
  };
  let opened = 0;
  for (let round = 0; round < 3000; round++) {
    const bytes = Buffer.from(good);
    for (let change = random(3); change >= 0; change--) bytes[random(headerBytes)]! ^= 1 << random(8);
    try {
      const { source } = openGgufModel(save("fuzz.gguf", bytes));
      for (const name of source.names()) source.get(name).bytes();
      opened++;
    } catch (error) {
      assert.ok(error instanceof FormatError, `round ${round}: ${(error as Error).stack}`);
    }
  }
  assert.ok(opened > 20 && opened < 2900, `${opened} opened`);
});

/** Rope fields without the ones that say what is the case anyway. */
function withoutDefaults(rope: unknown): unknown {
  const { beta_fast, beta_slow, partial_rotary_factor, ...rest } = (rope ?? {}) as Record<string, unknown>;
  for (const value of [beta_fast, beta_slow, partial_rotary_factor])
    assert.ok([undefined, 32, 1].includes(value as number));
  return rest;
}

/** gpt-oss's stacked experts [E, inputs, outputs], one by one as [outputs, inputs]; other tensors as they are. */
function* perExpert(name: string, shape: readonly number[], values: Float32Array): Generator<[string, Float32Array]> {
  const match = /^(.*\.mlp\.experts)\.(gate_up|down)_proj(_bias)?$/.exec(name);
  if (match === null) return yield [name, values];
  const [, prefix, kind, bias] = match;
  const size = values.length / shape[0]!;
  for (let e = 0; e < shape[0]!; e++) {
    const own = values.subarray(e * size, (e + 1) * size);
    const outputs = shape.at(-1)!;
    const rows = bias ? own : transposed(own, size / outputs, outputs);
    const cols = size / outputs;
    const pick = (first: number, step: number) => rows.filter((_, i) => Math.floor(i / cols) % step === first);
    const suffix = bias ? "bias" : "weight";
    if (kind === "down") yield [`${prefix}.${e}.down_proj.${suffix}`, Float32Array.from(rows)];
    else {
      yield [`${prefix}.${e}.gate_proj.${suffix}`, pick(0, 2)];
      yield [`${prefix}.${e}.up_proj.${suffix}`, pick(1, 2)];
    }
  }
}

function transposed(values: Float32Array, rows: number, cols: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; row++)
    for (let col = 0; col < cols; col++) out[col * rows + row] = values[row * cols + col]!;
  return out;
}
