// Adapters: those of ../shared/goldens-lora against what PEFT and Hugging Face computed, and rows of many adapters in one step against each
// of them alone, bit for bit.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Adapter, AdapterPair } from "../src/adapters/adapter.js";
import { AdapterSites } from "../src/adapters/attach.js";
import { FormatError } from "../src/core/errors.js";
import type { HostTensor } from "../src/core/tensor.js";
import type { Device } from "../src/device/device.js";
import { NullDevice } from "../src/device/null/null-device.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { ModelRunner, type RunRange } from "../src/engine/core/verify/model-runner.js";
import { verifyModel } from "../src/engine/core/verify/verify.js";
import { madeTensor } from "../src/formats/tensor-views.js";
import type { Linear } from "../src/models/blocks/linear.js";
import { familyOf } from "../src/models/registry.js";
import { numbers } from "./contract/inputs.js";
import { openCpu, roundsToBf16 } from "./support/cpu.js";
import { openCuda, withF32Weights } from "./support/cuda.js";

const ADAPTERS = "../shared/goldens-lora";
const BASES = "../shared/goldens";
const cpu = await openCpu();
const cuda = await openCuda();
const wasm = await openDevice({ device: "wasm", threads: 2 });
const reference = new ReferenceDevice();
after(() => {
  wasm.close();
  cuda.device?.close();
  cpu.device?.close();
});
const devices: { name: string; device: Device | null; skip: string | false }[] = [
  { name: "reference", device: reference, skip: false },
  { name: "cpu", device: cpu.device, skip: cpu.reason },
  { name: "wasm", device: wasm, skip: false },
  // Its kernels round what meets bf16 weights; adapters do not, as bases in f32 show.
  { name: "cuda", device: cuda.device && withF32Weights(cuda.device), skip: cuda.reason },
];

if (!existsSync(ADAPTERS)) test(`adapters of ${ADAPTERS}`, { skip: `${ADAPTERS} is not here` });
else {
  const names = readdirSync(ADAPTERS);
  for (const { name, device, skip } of devices) {
    for (const adapter of names) {
      const path = join(ADAPTERS, adapter);
      const mayStray = roundsToBf16(device) && "tiles round what meets bf16 weights";
      test(`${path} on ${name}`, { skip: skip || mayStray }, async () => {
        const { base } = JSON.parse(readFileSync(join(path, "golden.json"), "utf8")) as { base: string };
        const result = await verifyModel(join(BASES, base), device!, { adapter: path, tolerance: 2e-4 });
        assert.ok(result.isOk, JSON.stringify(result.cases.filter((found) => !found.isOk)));
        assert.ok(result.cases.every(({ chunkDifference }) => chunkDifference === 0));
      });
    }
  }
  test(`${ADAPTERS} is complete`, () => assert.ok(names.length >= 15, names.join(" ")));
}

/** Pairs of the given rank for some of the matrices of a base. */
function madeAdapter(linears: readonly Linear[], wanted: RegExp, rank: number, seed: number): Adapter {
  const pairs = new Map<string, AdapterPair>();
  for (const linear of linears) {
    for (const { name, rows, made } of linear.sites) {
      if (!wanted.test(name) || pairs.has(name)) continue;
      const { outputs, inputs } = made ?? { outputs: rows, inputs: linear.weight.cols };
      const tensor = (half: string, shape: number[], from: number): HostTensor => {
        const values = numbers(shape[0]! * shape[1]!, from, 0.3);
        return madeTensor(`${name}.${half}`, "f32", shape, () => new Uint8Array(values.buffer));
      };
      const own = seed * 1000 + pairs.size;
      const a = tensor("a", [rank, inputs], 2 * own);
      pairs.set(name, { module: name, a, b: tensor("b", [outputs, rank], 2 * own + 1), rank, scale: 0.5 });
    }
  }
  return { file: "made", pairs: [...pairs.values()], close: () => {} };
}

const NUM_SEQUENCES = 12;
const LENGTH = 21;
/** Matrices and rank of each of five adapters: some at all matrices, one at the head alone. */
const KINDS: readonly (readonly [RegExp, number])[] = [
  [/./, 4],
  [/q_proj|v_proj|q_b_proj/, 8],
  [/down_proj|gate_proj|kv_b_proj/, 3],
  [/lm_head/, 16],
  [/./, 17],
];

function load(base: string, device: Device) {
  const checkpoint = openCheckpoint(base);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const source = checkpoint.openTensors();
  const linears: Linear[] = [];
  const capacity = { maxTokens: NUM_SEQUENCES * LENGTH, maxLogitRows: 5 };
  const model = family.load(config, { device, source, capacity, quantize: "none", linears });
  source.close();
  return { model, linears, capacity };
}

for (const base of ["test/goldens/llama", "test/goldens/deepseek-v3", "test/goldens/gemma3"]) {
  for (const { name, device, skip } of devices) {
    test(`${base} on ${name}: 12 rows with 5 adapters and none give the bits of each alone`, { skip }, async () => {
      const { model, linears, capacity } = load(base, device!);
      const sites = new AdapterSites(device!, linears);
      const attached = KINDS.map(([wanted, rank], slot) =>
        sites.attach(madeAdapter(linears, wanted, rank, slot), slot),
      );
      const { vocabSize } = model.spec;
      const runnerOf = (numSequences: number) =>
        new ModelRunner({ ...capacity, device: device!, model, numSequences, maxLength: LENGTH });
      const tokens = Int32Array.from(numbers(LENGTH, 77, 1), (u) => Math.floor(((u + 1) / 2) * (vocabSize - 1)));
      const adapterOf = (sequence: number): number => (sequence % 6) - 1;
      const range = (sequence: number, start: number, end: number, own = sequence): RunRange => ({
        ...{ sequence, tokens, start, end, logitsFrom: 0, adapter: adapterOf(own) },
      });
      const alone: Float32Array[] = [];
      const single = runnerOf(1);
      for (let s = 0; s < 6; s++) alone.push(await single.run([range(0, 0, LENGTH, s)]));
      const lastOf = (logits: Float32Array, row: number) => logits.slice(row * vocabSize, (row + 1) * vocabSize);
      // The adapters differ, or the test would show nothing.
      const lasts = new Set(alone.map((logits) => lastOf(logits, LENGTH - 1).join()));
      assert.equal(lasts.size, 6);

      const together = await runnerOf(NUM_SEQUENCES).run(
        Array.from({ length: NUM_SEQUENCES }, (_, s) => range(s, 0, LENGTH)),
      );
      for (let s = 0; s < NUM_SEQUENCES; s++) {
        const own = together.slice(s * LENGTH * vocabSize, (s + 1) * LENGTH * vocabSize);
        assert.deepEqual(own, alone[s % 6], `sequence ${s}`);
      }

      // In chunks that differ from row to row, in the other order, some rows ahead of others.
      const chunked = runnerOf(NUM_SEQUENCES);
      const done = new Array<number>(NUM_SEQUENCES).fill(0);
      while (done.some((at) => at < LENGTH)) {
        const ranges: RunRange[] = [];
        for (let s = NUM_SEQUENCES - 1; s >= 0; s--) {
          const start = done[s]!;
          if (start === LENGTH) continue;
          done[s] = Math.min(LENGTH, start + 1 + ((s * 5 + start) % 7));
          ranges.push(range(s, start, done[s]!));
        }
        const logits = await chunked.run(ranges);
        let row = 0;
        for (const { sequence, start, end } of ranges) {
          for (let at = start; at < end; at++, row++) {
            assert.deepEqual(lastOf(logits, row), lastOf(alone[sequence % 6]!, at), `sequence ${sequence} at ${at}`);
          }
        }
      }

      // Out of its slot an adapter adds nothing any more.
      for (const one of attached) one.detach();
      assert.deepEqual(await single.run([range(0, 0, LENGTH, 1)]), alone[0]);
    });
  }
}

test("an adapter of another base is refused by the tensor's name, and nothing of it stays", () => {
  const { linears } = load("test/goldens/llama", reference);
  const sites = new AdapterSites(reference, linears);
  const made = madeAdapter(linears, /q_proj/, 4, 1);
  const broken = (change: Partial<AdapterPair>): Adapter => ({
    ...made,
    pairs: [...made.pairs.slice(0, -1), { ...made.pairs.at(-1)!, ...change }],
  });
  const refused = (adapter: Adapter): unknown[] => {
    try {
      sites.attach(adapter, 0);
    } catch (error) {
      assert.ok(error instanceof FormatError);
      return [error.code, error.details.tensor];
    }
    assert.fail("it was not refused");
  };
  const { a, b } = made.pairs.at(-1)!;
  assert.deepEqual(refused(broken({ module: "model.vision_tower.layers.0.q_proj" })), ["adapter_unfit", a.name]);
  assert.deepEqual(refused(broken({ a: { ...a, shape: [4, 3] } })), ["tensor_mismatch", a.name]);
  // One matrix twice, under names that differ in what stands before the decoder's.
  const twice = {
    ...made,
    pairs: [...made.pairs, { ...made.pairs[0]!, module: `transformer.${made.pairs[0]!.module}` }],
  };
  assert.deepEqual(refused(twice), ["adapter_unfit", made.pairs[0]!.a.name]);
  // Experts, one by one and stacked, as PEFT writes them.
  for (const module of ["mlp.experts.0.gate_proj", "mlp.experts", "mlp.experts.base_layer"])
    assert.deepEqual(refused(broken({ module: `model.layers.0.${module}` })), ["adapter_unfit", a.name]);
  assert.deepEqual(refused(broken({ b: { ...b, shape: [5, 4] } })), ["tensor_mismatch", b.name]);
});

test("a device without adapters refuses them", () => {
  const device = new NullDevice();
  const { linears } = load("test/goldens/llama", device);
  const adapter = madeAdapter(linears, /q_proj/, 4, 1);
  assert.throws(() => new AdapterSites(device, linears).attach(adapter, 0), { code: "device_unavailable" });
});
