// Draws: the rule of core/sample-row.ts, token for token.

import assert from "node:assert/strict";
import { Batch } from "../../src/core/batch.js";
import { MAX_TOP_LOGPROBS } from "../../src/core/draws.js";
import type { Device, TokenBuffer } from "../../src/device/device.js";
import { type DrawSpec, drawsOf } from "../support/sampled.js";
import type { Duel } from "./duel.js";
import { numbers, uniform } from "./inputs.js";

const VOCAB = 307;
const SEEN = [3, 3, 9, 100, 9, 306, 3];

const RULES: Record<string, DrawSpec> = {
  greedy: { temperature: 0 },
  free: {},
  hot: { temperature: 2.5 },
  "top-k": { topK: 5 },
  "top-k of one": { topK: 1 },
  "top-k beyond the vocabulary": { topK: 1000 },
  "top-p": { topP: 0.7 },
  "min-p": { minP: 0.2 },
  "all filters": { temperature: 0.8, topK: 40, topP: 0.9, minP: 0.05 },
  "a temperature that f32 rounds": { temperature: 0.7, topP: 0.95 },
  bias: {
    logitBias: [
      [5, 9.7],
      [200, -100],
      [5, 0.1],
    ],
  },
  "greedy, repetition": { temperature: 0, prompt: SEEN, answer: [8, 9], repetitionPenalty: 1.3 },
  "presence and frequency": { prompt: [1, 2], answer: SEEN, presencePenalty: 0.6, frequencyPenalty: 0.3 },
  "all penalties": { prompt: SEEN, answer: SEEN, repetitionPenalty: 0.8, presencePenalty: -1, frequencyPenalty: 0.5 },
  "forbidden tokens": { forbidden: [0, 1, 2, 300, 4000] },
  mask: { allowed: [0, 31, 32, 63, 64, 95, 200, 306] },
  "mask of one": { allowed: [306], temperature: 0.1 },
  "everything at once": {
    ...{ temperature: 0.9, topK: 50, topP: 0.9, minP: 0.01, prompt: SEEN, answer: SEEN, repetitionPenalty: 1.1 },
    ...{ presencePenalty: 0.4, frequencyPenalty: 0.2, logitBias: [[7, 3]], forbidden: [11] },
    allowed: Array.from({ length: 280 }, (_, i) => i),
    logprobs: 5,
  },
};

export function sampleContract(duel: Duel): void {
  for (const [name, rule] of Object.entries(RULES)) {
    duel.test("sample", name, async () => {
      const logits = numbers(64 * VOCAB, 90, 6);
      const specs = Array.from({ length: 64 }, (_, r) => ({ ...rule, uniform: uniform(92, r) }));
      await assertSame(duel, logits, 64, specs);
      // Reports change no draw.
      const plain = (await sample(duel.device, logits, 64, specs)).ids;
      const reporting = specs.map((spec) => ({ ...spec, logprobs: 3 }));
      assert.deepEqual((await sample(duel.device, logits, 64, reporting)).ids, plain);
    });
  }

  duel.test("sample", "a rule of its own for each row, several from one row of logits", async () => {
    const rules = Object.values(RULES);
    const logits = numbers(37 * VOCAB, 91, 6);
    const specs = Array.from({ length: 100 }, (_, r) => ({
      ...rules[r % rules.length]!,
      logitRow: (r * 7) % 37,
      uniform: uniform(93, r),
    }));
    await assertSame(duel, logits, 37, specs);
  });

  duel.test("sample", "a vocabulary of which thousands are as probable, or nearly", async () => {
    const vocab = 5003;
    const rules: DrawSpec[] = [
      ...[{}, { topK: 1500 }, { topK: 2500, topP: 0.6 }, { topP: 0.5 }, { minP: 0.9 }, { temperature: 3, topP: 0.9 }],
      ...[{ topP: 0.99, minP: 0.2 }, { topK: 40, logprobs: 20 }, { temperature: 0, logprobs: 40 }, { topK: 700 }],
    ];
    for (const step of [0, 1e-4, 0.5]) {
      // Three levels, of which the second holds most tokens; or a slope so flat that they share a bin; or one of steps.
      const logits = Float32Array.from(
        { length: vocab },
        (_, id) => ((id * 7919) % 97 === 0 ? 1 : 0) - step * (id % 40),
      );
      for (const rule of rules) {
        const specs = Array.from({ length: 5 }, (_, r) => ({ ...rule, uniform: uniform(96, r), logitRow: 0 }));
        await assertSame(duel, logits, 1, specs, vocab);
        await assertSame(duel, logits, 1, specs.slice(3, 4), vocab);
      }
    }
  });

  duel.test("sample", "reports of drawn and of given tokens, before any edit", async () => {
    const logits = numbers(8 * VOCAB, 94, 6);
    const specs: DrawSpec[] = [0, 1, 5, 20, MAX_TOP_LOGPROBS].map((logprobs) => ({ logprobs, allowed: [5, 6, 7] }));
    specs.push({ given: 12, logprobs: 0 }, { given: 306, logprobs: 4, forbidden: [306] });
    await assertSame(duel, logits, 8, specs);
  });

  duel.test(
    "sample",
    "ties go to the lower id, NaN is never chosen, -inf is never drawn, nothing left is -1",
    async () => {
      const logits = new Float32Array(5 * VOCAB).fill(Number.NEGATIVE_INFINITY);
      logits[7] = logits[9] = 3; // row 0: a tie
      logits.fill(Number.NaN, VOCAB, 2 * VOCAB); // row 1: one number among NaN
      logits[VOCAB + 300] = -5;
      logits[2 * VOCAB + 306] = 1; // row 2: the last id
      logits[3 * VOCAB] = 1; // row 3: the first id
      for (const temperature of [0, 1]) {
        const specs = Array.from({ length: 5 }, () => ({ temperature, topK: 1 }));
        assert.deepEqual([...(await sample(duel.device, logits, 5, specs)).ids], [7, 300, 306, 0, -1]);
        const none = [
          { temperature, allowed: [8] },
          { temperature, logitRow: 0, forbidden: [7, 9] },
        ];
        assert.deepEqual([...(await sample(duel.device, logits, 5, none)).ids], [-1, -1]);
      }
    },
  );

  duel.test("sample", "logits that are NaN or infinite: the same token everywhere, inside the vocabulary", async () => {
    const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
    const patterns: ((id: number) => number)[] = [
      () => nan,
      () => inf,
      () => -inf,
      (id) => (id === 0 ? nan : -inf),
      (id) => (id === 0 ? -inf : nan),
      (id) => [nan, -inf, inf, id][id % 4]!,
      (id) => (id === 306 ? inf : id / 50),
      (id) => (id % 3 === 0 ? nan : id % 3 === 1 ? -inf : -id / 50),
      (id) => (id % 2 === 0 ? nan : (id % 5) - 3),
      (id) => (id % 2 === 0 ? 3e38 : -3e38),
      (id) => (id === 9 ? 3e38 : id === 3 ? nan : id / 100),
      (id) => (id < 256 ? nan : id === 300 ? -3e38 : -inf),
    ];
    const logits = Float32Array.from({ length: patterns.length * VOCAB }, (_, i) =>
      patterns[Math.floor(i / VOCAB)]!(i % VOCAB),
    );
    for (const [name, rule] of Object.entries(RULES)) {
      const specs = Array.from({ length: 3 * patterns.length }, (_, r) => ({
        ...rule,
        logprobs: r % 5 < 3 ? 5 : null,
        logitRow: r % patterns.length,
        uniform: [0, uniform(97, r), 1 - 2 ** -53][Math.floor(r / patterns.length)]!,
      }));
      const ids = await assertSame(duel, logits, patterns.length, specs, VOCAB, name);
      assert.ok(
        ids.every((id) => id >= -1 && id < VOCAB),
        name,
      );
    }
    for (const temperature of [0, 1]) {
      const specs = Array.from({ length: 7 }, () => ({ temperature }));
      const { ids } = await sample(duel.device, logits, patterns.length, specs);
      assert.deepEqual([...ids], [-1, 0, -1, -1, -1, 2, 306]);
    }
  });

  duel.test(
    "sample",
    "rows and tokens stay on the device, and those of the flight ahead count before the host knows them",
    async () => {
      const { device } = duel;
      device.reserveRows(200);
      const logits = numbers(2 * VOCAB, 95, 6);
      const sampling = { temperature: 0, repetitionPenalty: 1.3, presencePenalty: 2, frequencyPenalty: 5 };
      const prompts = [SEEN, SEEN.slice(2)];
      const tensor = device.loadTensor(logits, 2, VOCAB);
      const batch = new Batch(4, 8);
      for (let r = 0; r < 2; r++) batch.addRow(Int32Array.of(1), 0, 1, Int32Array.of(1 + r), 0);
      const staged = device.createStagedBatch(8);
      const outs = Array.from({ length: 6 }, () => device.createTokenBuffer(3));
      for (const [flight, out] of outs.entries()) {
        device.stage(staged, batch, [], flight === 0 ? null : outs[flight - 1]!);
        // Two flights under way; the second row has drafts: two draws beside each other, the later one behind a guess.
        if (flight > 1) await land(device, outs[flight - 2]!);
        const answerOf = (r: number) =>
          outs.slice(0, flight).map(({ ids }, i) => (i < flight - 1 ? ids[r]! : -(r + 1)));
        const specs = [0, 1, 1].map((r, i): DrawSpec => {
          const before = prompts[r]!.length + Math.max(0, flight - 1);
          const answer = [...answerOf(r), ...(i === 2 ? [7] : [])];
          const room = { row: 100 * r, numHeld: flight === 0 ? 0 : before, isNew: flight === 0 && i < 2 };
          return { ...sampling, logitRow: r, prompt: prompts[r]!, answer, ...room };
        });
        device.sample(out, 0, tensor, 2, drawsOf(specs, VOCAB));
        device.submit(out);
      }
      for (const out of outs.slice(-2)) await land(device, out);
      for (const [flight, out] of outs.entries()) {
        const specs = [0, 1, 1].map((r, i) => {
          const answer = outs.slice(0, flight).map(({ ids }) => ids[r]!);
          return { ...sampling, logitRow: r, prompt: prompts[r]!, answer: i === 2 ? [...answer, 7] : answer };
        });
        assert.deepEqual([...out.ids], [...(await sample(duel.reference, logits, 2, specs)).ids], `flight ${flight}`);
      }
      assert.ok(new Set(outs.map(({ ids }) => ids[0])).size > 3, "penalties change what is drawn");
    },
  );
}

async function land(device: Device, out: TokenBuffer): Promise<void> {
  await device.landed?.(out);
  device.waitFor(out);
}

async function sample(device: Device, logits: Float32Array, n: number, specs: readonly DrawSpec[], vocab = VOCAB) {
  const first = 3; // behind the rows of another block
  const out = device.createTokenBuffer(first + specs.length);
  for (const array of [out.ids, out.logprobs, out.topIds, out.topLogprobs]) array.fill(-7);
  device.sample(out, first, device.loadTensor(logits, n, vocab), n, drawsOf(specs, vocab));
  device.submit(out);
  await land(device, out);
  assert.deepEqual([...out.ids.subarray(0, first)], [-7, -7, -7]);
  return {
    ids: out.ids.slice(first),
    logprobs: out.logprobs.slice(first),
    topIds: out.topIds.slice(first * MAX_TOP_LOGPROBS),
    topLogprobs: out.topLogprobs.slice(first * MAX_TOP_LOGPROBS),
  };
}

/** The same tokens and reports on both devices. Numbers may differ in the last bits, and -7 must stay where nothing is written. */
async function assertSame(
  duel: Duel,
  logits: Float32Array,
  n: number,
  specs: readonly DrawSpec[],
  vocab = VOCAB,
  what = "",
): Promise<Int32Array> {
  const got = await sample(duel.device, logits, n, specs, vocab);
  const want = await sample(duel.reference, logits, n, specs, vocab);
  assert.deepEqual(got.ids, want.ids, what);
  assert.deepEqual(got.topIds, want.topIds, what);
  for (const field of ["logprobs", "topLogprobs"] as const) {
    got[field].forEach((x, i) => {
      assert.ok(
        Object.is(x, want[field][i]) || Math.abs(x - want[field][i]!) < 1e-5,
        `${what} ${field} ${i}: ${x}, not ${want[field][i]}`,
      );
    });
  }
  return got.ids;
}
