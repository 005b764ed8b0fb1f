import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openFilesUnder } from "../../../../test/support/open-files.js";
import { writeTinyCheckpoint } from "../../../../test/support/tiny-checkpoint.js";
import { writeTinyEncoder } from "../../../../test/support/tiny-encoder.js";
import type { AttentionPlan } from "../../../core/attention-plan.js";
import type { Batch } from "../../../core/batch.js";
import type { KvPoolSpec, StagedBatch, TokenBuffer } from "../../../device/device.js";
import { ReferenceDevice } from "../../../device/reference/reference-device.js";
import { RoundedDevice } from "../../../device/reference/rounded-device.js";
import { familyOf } from "../../../models/registry.js";
import { openCheckpoint } from "../../checkpoint.js";
import { ModelRunner } from "./model-runner.js";
import { type GoldenCase, TIE_GAP, type VerifyOptions, verifyModel } from "./verify.js";

const folder = writeTinyCheckpoint();
const PROMPT = Array.from({ length: 19 }, (_, i) => (i * 53 + 7) % 250);
const NUM_GREEDY = 3;
const TOLERANCE = 0.001;

/** What the model itself gives, computed token by token. */
async function truth(
  path = folder,
): Promise<Required<Pick<GoldenCase, "last_logits" | "logprob_sum" | "greedy">> & { gaps: number[] }> {
  const device = new ReferenceDevice();
  const checkpoint = openCheckpoint(path);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const source = checkpoint.openTensors();
  const capacity = { maxTokens: 1, maxLogitRows: 1 };
  const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const model = family.load(config, { device, source, capacity, quantize: "none" });
  source.close();
  const runner = new ModelRunner({ ...capacity, device, model, numSequences: 1, maxLength: 40 });
  const tokens = [...PROMPT];
  const gaps: number[] = [];
  let [last_logits, logprob_sum]: [number[], number] = [[], 0];
  for (let at = 0; at < PROMPT.length + NUM_GREEDY; at++) {
    const logits = [...(await runner.run([{ sequence: 0, tokens, start: at, end: at + 1, logitsFrom: at }]))];
    const next = tokens[at + 1];
    if (next !== undefined) {
      const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
      logprob_sum += Math.log(Math.exp(logits[next]!) / total);
      continue;
    }
    if (at === PROMPT.length - 1) last_logits = logits;
    const [first, second] = logits.toSorted((a, b) => b - a) as [number, number];
    gaps.push(first - second);
    tokens.push(logits.indexOf(first));
  }
  return { last_logits, logprob_sum, greedy: tokens.slice(PROMPT.length, PROMPT.length + NUM_GREEDY), gaps };
}

const right = await truth();

/** Notes what it was asked for. */
class WatchedDevice extends ReferenceDevice {
  readonly poolPages: number[] = [];
  readonly stepTokens: number[] = [];

  override allocKvPool(spec: KvPoolSpec) {
    this.poolPages.push(spec.numPages);
    return super.allocKvPool(spec);
  }

  override stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous?: TokenBuffer): void {
    this.stepTokens.push(batch.numTokens);
    super.stage(staged, batch, plans, previous);
  }
}

function writeGoldens(cases: readonly GoldenCase[], to = folder): void {
  writeFileSync(join(to, "golden.json"), JSON.stringify({ cases }));
}

async function verify(golden: Partial<GoldenCase>, options: VerifyOptions = {}, device = new ReferenceDevice()) {
  const { gaps: _, ...known } = right;
  writeGoldens([{ prompt: PROMPT, ...known, ...golden }]);
  const result = await verifyModel(folder, device, { tolerance: TOLERANCE, ...options });
  assert.equal(result.cases.length, 1);
  assert.equal(result.isOk, result.cases[0]!.isOk);
  return result.cases[0]!;
}

test("a golden that says what the model gives passes, in one batch and in chunks of any size", async () => {
  for (const chunk of [1, 5, 16, 19, 100]) {
    const found = await verify({}, { chunk });
    assert.ok(found.isOk);
    assert.deepEqual(
      [found.promptLen, found.greedyLen, found.logitDifference, found.chunkDifference, found.ties, found.misses],
      [19, NUM_GREEDY, 0, 0, [], []],
    );
    assert.ok(found.logprobDifference! < 1e-4);
  }
  const little = await verifyModel(folder, new ReferenceDevice());
  assert.ok(little.isOk && little.tolerance === new ReferenceDevice().info.logitTolerance);
});

test("a device that rounds to 16 bits is allowed what rounding costs this model", async () => {
  class Rounding extends RoundedDevice {
    override readonly info = { ...new ReferenceDevice().info, roundsOperands: true };
  }
  const halves = writeTinyCheckpoint({ dtype: "BF16" });
  const { gaps: _, ...known } = await truth(halves);
  writeGoldens([{ prompt: PROMPT, ...known }], halves);
  const { cases, tolerance } = await verifyModel(halves, new Rounding());
  const cost = cases[0]!.logitDifference!;
  assert.ok(cost > 1e-4, `${cost}`);
  assert.ok(Math.abs(tolerance - Math.max(1e-3, 3 * cost)) < 1e-6, `${tolerance}, ${cost}`);
  const exact = await verifyModel(folder, new Rounding());
  assert.equal(exact.tolerance, new ReferenceDevice().info.logitTolerance, "f32 weights are multiplied in f32");
});

test("a logit that is off by more than the tolerance fails; what a golden does not say is not compared", async () => {
  const off = (by: number) =>
    verify({ last_logits: right.last_logits.map((logit, i) => (i === 7 ? logit + by : logit)) });
  assert.deepEqual(
    [(await off(TOLERANCE / 2)).isOk, (await off(2 * TOLERANCE)).isOk, (await off(-2 * TOLERANCE)).isOk],
    [true, false, false],
  );
  assert.ok(Math.abs((await off(0.5)).logitDifference! - 0.5) < 1e-6);
  writeFileSync(join(folder, "golden.json"), JSON.stringify({ cases: [{ prompt: PROMPT }] }));
  const { logitDifference, logprobDifference, greedyLen, isOk } = (await verifyModel(folder, new ReferenceDevice()))
    .cases[0]!;
  assert.deepEqual([logitDifference, logprobDifference, greedyLen, isOk], [null, null, 0, true]);
});

test("pages and weights are kept as asked for: with fewer bits the logits move a little", async () => {
  for (const options of [{ kvDtype: "f16" }, { quantize: "q8" }] satisfies VerifyOptions[]) {
    const { logitDifference } = await verify({}, options);
    assert.ok(logitDifference! > 0 && logitDifference! < 0.1, JSON.stringify(options));
  }
});

test("a prompt runs at once, again in chunks of 16 unless told otherwise, and token by token after it", async () => {
  const stepsOf = async (options: VerifyOptions): Promise<number[]> => {
    const device = new WatchedDevice();
    assert.equal((await verify({}, options, device)).isOk, true);
    return device.stepTokens;
  };
  assert.deepEqual(await stepsOf({}), [19, 16, 3, 1, 1, 1]);
  assert.deepEqual(await stepsOf({ chunk: 9 }), [19, 9, 9, 1, 1, 1, 1]);
  assert.deepEqual(await stepsOf({ chunk: null }), [19, 1, 1, 1]);
  assert.equal((await verify({}, { chunk: null })).chunkDifference, 0);
  assert.deepEqual(openFilesUnder(folder), []);
});

test("what is exactly right passes without any tolerance; a difference of just the tolerance passes", async () => {
  const sum = -(await verify({ logprob_sum: 0 })).logprobDifference!;
  assert.equal((await verify({ logprob_sum: sum }, { tolerance: 0 })).isOk, true);
  const at = right.last_logits.map((logit, i) => (i === 7 ? logit + 0.5 : logit));
  const { logitDifference } = await verify({ last_logits: at });
  assert.equal((await verify({ last_logits: at }, { tolerance: logitDifference! })).isOk, true);
});

test("cases share a model, but those of either side of longrope's switch have their own", async () => {
  const cases = [20, 40, 7].map((length) => ({ prompt: Array(length).fill(3) }));
  writeGoldens([...cases, { prompt: [0] }]);
  const shared = new WatchedDevice();
  const { cases: results, isOk } = await verifyModel(folder, shared);
  assert.deepEqual(
    results.map(({ index, promptLen }) => [index, promptLen]),
    [
      [0, 20],
      [1, 40],
      [2, 7],
      [3, 1],
    ],
  );
  assert.equal(isOk, true);
  assert.deepEqual(shared.poolPages, [1 + 2 * 3]);

  const long = writeTinyCheckpoint({ layers: 1 });
  const config = JSON.parse(readFileSync(join(long, "config.json"), "utf8")) as Record<string, unknown>;
  const factors = { short_factor: Array(4).fill(1), long_factor: Array(4).fill(4) };
  const rope_scaling = { type: "longrope", original_max_position_embeddings: 33, ...factors };
  writeFileSync(join(long, "config.json"), JSON.stringify({ ...config, rope_scaling }));
  writeGoldens(
    [49, 32, 33, 34].map((length) => ({ prompt: Array(length - 1).fill(3), greedy: [1] })),
    long,
  );
  const own = new WatchedDevice();
  assert.equal((await verifyModel(long, own, { tolerance: 100 })).cases.length, 4);
  assert.deepEqual(own.poolPages, [1 + 2 * 4, 1 + 2 * 3]);
});

test("of a model that embeds, vectors are compared, alone and beside another text", async () => {
  const encoder = writeTinyEncoder();
  const device = new WatchedDevice();
  const prompt = [2, 6, 7, 8, 3];
  const found = async (golden: Partial<GoldenCase>, options: VerifyOptions = {}) => {
    writeGoldens([{ prompt, ...golden }], encoder);
    return (await verifyModel(encoder, device, { tolerance: TOLERANCE, ...options })).cases[0]!;
  };
  const zeros = Array(32).fill(0);
  const { logitDifference: largest } = await found({ mean: zeros });
  assert.deepEqual(await found({}), {
    ...{ index: 0, promptLen: 5, logitDifference: 0, logprobDifference: null, pixelDifference: null },
    ...{ chunkDifference: 0, greedyLen: 0, ties: [], misses: [], isOk: true },
  });
  assert.deepEqual(device.stepTokens.slice(0, 2), [5, 26]);
  assert.deepEqual(device.poolPages[0], 1 + 2 * 2);
  assert.equal((await found({}, { tolerance: 0 })).isOk, true);
  assert.deepEqual(
    [(await found({ mean: zeros })).isOk, (await found({ mean: zeros }, { tolerance: largest! })).isOk],
    [false, true],
  );
  assert.equal((await found({ mean: zeros.slice(1) }, { tolerance: 100 })).isOk, false, "another size");
});

test("log-probabilities may be off by the tolerance for each token of the prompt", async () => {
  const off = async (by: number) => (await verify({ logprob_sum: right.logprob_sum + by * PROMPT.length })).isOk;
  assert.deepEqual(
    [await off(0.9 * TOLERANCE), await off(-0.9 * TOLERANCE), await off(1.1 * TOLERANCE)],
    [true, true, false],
  );
});

test("another greedy token is a miss, unless both implementations were near a tie", async () => {
  const second = right.last_logits.toSorted((a, b) => b - a)[1]!;
  const other = right.last_logits.indexOf(second);
  const wrong = await verify({ greedy: [other, ...right.greedy.slice(1)] });
  assert.equal(wrong.isOk, false);
  const [miss] = wrong.misses;
  assert.deepEqual([miss!.index, miss!.expected, miss!.found], [0, other, right.greedy[0]]);
  const gap = right.last_logits[right.greedy[0]!]! - right.last_logits[other]!;
  assert.ok(Math.abs(miss!.gap - gap) < 1e-6 && gap > TIE_GAP && gap < 0.9);
  const tolerant = { tolerance: 1.01 * gap };
  const tie = await verify({ greedy: [other] }, tolerant);
  assert.deepEqual([tie.isOk, tie.ties, tie.misses], [true, [miss], []]);
  assert.equal((await verify({ greedy: [other] }, { tolerance: 0.99 * gap })).isOk, false, "ours is none");
  assert.equal((await verify({ greedy: [other], min_top2_gap: 1.02 * gap }, tolerant)).isOk, false, "theirs was none");
  assert.equal((await verify({ greedy: [other], min_top2_gap: 1.01 * gap }, tolerant)).isOk, false, "nor was that");
  assert.equal((await verify({ greedy: [other] }, { tolerance: miss!.gap })).isOk, false, "less, not as much");
  assert.equal(TIE_GAP, 0.005);
  const later = (await verify({ greedy: [right.greedy[0]!, (right.greedy[1]! + 1) % 250] })).misses[0]!;
  assert.deepEqual([later.index, later.found], [1, right.greedy[1]]);
});

test("goldens that are none are refused by name", async () => {
  for (const cases of [
    7,
    [],
    [{}],
    [{ prompt: [] }],
    [{ prompt: [1.5] }],
    [{ prompt: [-1] }],
    [{ prompt: [1], greedy: 3 }],
  ]) {
    writeFileSync(join(folder, "golden.json"), JSON.stringify({ cases }));
    await assert.rejects(() => verifyModel(folder, new ReferenceDevice()), /cases.*a list of cases/s);
  }
  await assert.rejects(() => verify({ greedy: [260] }), /ids below 260/);
  await assert.rejects(() => verify({ prompt: [1, 260] }), /ids below 260/);
  writeGoldens([{ prompt: [1, 2] }, { prompt: [1, 260] }]);
  await assert.rejects(() => verifyModel(folder, new ReferenceDevice()), /ids below 260/);
});
