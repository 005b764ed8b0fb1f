// An engine's core on a device that writes down what it is asked for: who tests the core reads it step by step. After token i comes
// i + 1, so that answers can be told without computing them.

import type { AttentionPlanner } from "../../src/attention/planner.js";
import type { GroupOptions } from "../../src/cache/cache-group.js";
import { CacheManager } from "../../src/cache/cache-manager.js";
import type { AttentionPlan } from "../../src/core/attention-plan.js";
import { Batch } from "../../src/core/batch.js";
import { DRAW, DRAW_WORDS, type Draws, FLAG, ROW } from "../../src/core/draws.js";
import { uniformOf } from "../../src/core/random.js";
import { sampleRow } from "../../src/core/sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";
import type { KvPool, StagedBatch, StatePool, Tensor, TokenBuffer } from "../../src/device/device.js";
import { NullDevice } from "../../src/device/null/null-device.js";
import { EngineCore, type EngineParts } from "../../src/engine/core/engine-core.js";
import type { AddMessage } from "../../src/engine/messages.js";
import type { Caches } from "../../src/models/model.js";
import type { LogitsHook } from "../../src/sampler/sampler.js";
import { Scheduler } from "../../src/scheduler/scheduler.js";
import { outputsOf, type RequestOutput } from "./outputs.js";

export const VOCAB = 50;
const HIDDEN = 2;

export class RecordingDevice extends NullDevice {
  override info = { ...new NullDevice().info };
  readonly lines: string[] = [];
  readonly hidden = this.allocTensor(1, HIDDEN);
  readonly logits = this.allocTensor(1, VOCAB);
  #batch = new Batch(1, 0);
  #first = 0;
  readonly #ended = new Set<TokenBuffer>();

  override stage(staged: StagedBatch, batch: Batch, plans: readonly AttentionPlan[], previous?: TokenBuffer): void {
    const rows = Array.from({ length: batch.numRows }, (_, r) => rowText(batch, r));
    const logits = batch.logitRows.subarray(0, batch.numLogitRows).join();
    this.lines.push(
      `stage ${rows.join("; ")}${logits === "" ? "" : ` -> ${logits}`}${previous == null ? "" : " after another"}`,
    );
    super.stage(staged, batch, plans, previous);
    this.#batch = batch;
  }

  override gatherLogitRows(_out: Tensor, _x: Tensor, _staged: StagedBatch, first: number, n: number): void {
    this.lines.push(`logits ${first}+${n}`);
    this.#first = first;
  }

  override sample(out: TokenBuffer, first: number, _logits: Tensor, _n: number, draws: Draws): void {
    const texts: string[] = [];
    this.keep(draws);
    for (let d = 0; d < draws.count; d++) {
      const field = (name: keyof typeof DRAW) => draws.ints[d * DRAW_WORDS + DRAW[name]]!;
      const given = field("given") < 0 ? "" : `=${field("given")}`;
      const top = field("numTop") < 0 ? "" : `^${field("numTop")}`;
      const row = field("row");
      const word = (i: number) => (row < 0 ? draws.lists[i - row - 1]! : this.rows[row + i]!);
      const uniform = () => uniformOf(word(ROW.seedLow), word(ROW.seedHigh), field("sample"), field("position"));
      const drawn = (field("flags") & FLAG.isDrawn) === 0 ? "" : `~${uniform().toFixed(3)}`;
      texts.push(`${field("logitRow")}${given}${top}${drawn}`);
      sampleRow(out, first + d, this.#row(field("logitRow")), draws, d, this.rows);
    }
    this.lines.push(`sample ${first}: ${texts.join(" ")}`);
  }

  /** Hidden states are [token, position]. */
  override readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    this.lines.push(`keep ${x === this.hidden ? "hidden" : "logits"} ${firstRow}+${n}`);
    for (let r = 0; r < n; r++) {
      const t = firstRow + r;
      if (x === this.hidden) out.set([this.#batch.inputIds[t]!, this.#batch.positions[t]!], HIDDEN * r);
      else out.set(this.#row(t), VOCAB * r);
    }
  }

  override copyPage(pool: KvPool, from: number, to: number): void {
    this.lines.push(`copy page ${from}>${to} of ${pool.spec.group}`);
  }
  override copyStates(_pool?: StatePool, from = 0, to = 0): void {
    this.lines.push(`copy state ${from}>${to}`);
  }
  start(): void {
    this.lines.push("start");
  }
  override submit(tokens: TokenBuffer): void {
    this.#ended.add(tokens);
  }
  override waitFor(tokens: TokenBuffer): void {
    this.lines.push(this.#ended.delete(tokens) ? "land" : "wait for what never ends");
  }

  #row(logitRow: number): Float32Array {
    const t = this.#batch.logitRows[this.#first + logitRow]!;
    return new Float32Array(VOCAB).fill(
      9,
      (this.#batch.inputIds[t]! + 1) % VOCAB,
      (this.#batch.inputIds[t]! + 2) % VOCAB,
    );
  }
}

/** "start:[tokens] pages | of the next group", then what is unusual: a state, tokens of a second text, tokens that see further ones. */
function rowText(batch: Batch, r: number): string {
  const [from, to] = [batch.qoIndptr[r]!, batch.qoIndptr[r + 1]!];
  const tables = batch.groups.map(({ kvIndptr, kvIndices }) =>
    kvIndices.subarray(kvIndptr[r]!, kvIndptr[r + 1]!).join(),
  );
  const start = batch.positions[from]!;
  const seen = batch.visibleEnd.subarray(from, to).join();
  const causal = Array.from({ length: to - from }, (_, i) => start + i + 1).join();
  const types = batch.tokenTypes.subarray(from, to).join();
  return [
    `${start}:[${batch.inputIds.subarray(from, to).join()}] ${tables.join("|")}`,
    ...(batch.stateSlots[r]! < 0 ? [] : [`state ${batch.stateSlots[r]}`]),
    ...(batch.stateLens[r]! === to - from ? [] : [`behind ${batch.stateLens[r]}`]),
    ...(types.includes("1") ? [`types ${types}`] : []),
    ...(seen === causal ? [] : [`sees ${seen}`]),
  ].join(" ");
}

export interface RecordedOptions extends Partial<Pick<EngineParts, "compiler" | "eosIds" | "layers" | "planners">> {
  readonly device?: RecordingDevice;
  readonly pageSize?: number;
  readonly pages?: number;
  readonly maxPagesPerBatch?: number;
  readonly maxLogitRows?: number;
  readonly maxContext?: number;
  readonly groups?: readonly GroupOptions[];
  readonly isBidirectional?: boolean;
  readonly prefixCaching?: boolean;
}

export class RecordedCore {
  readonly device: RecordingDevice;
  readonly core: EngineCore;
  readonly cache: CacheManager;
  readonly caches: Caches;
  now = 1000;

  constructor(options: RecordedOptions = {}) {
    const {
      device = new RecordingDevice(),
      pageSize = 4,
      pages = 30,
      maxPagesPerBatch = 2,
      prefixCaching = true,
    } = options;
    const { groups = [{ kind: "full", numPages: pages + 1 }] } = options;
    this.device = device;
    const budget = pageSize * maxPagesPerBatch;
    const shape = { pageSize, numLayers: 1, numKvHeads: 1, keyDim: 1, valueDim: 1, dtype: "f32" } as const;
    const caches = groups.map(({ kind, numPages }, group) =>
      kind === "state"
        ? device.allocStatePool({ numSlots: numPages, floats: 1 })
        : device.allocKvPool({ ...shape, group, numPages }),
    );
    this.caches = caches;
    this.cache = new CacheManager({ pageSize, prefixCaching, maxChunk: budget, groups, hostTier: null });
    const clock = () => this.now;
    const scheduler = new Scheduler(
      { mode: "extend", pageSize, maxPagesPerBatch, idealChunk: budget },
      this.cache,
      clock,
    );
    const { isBidirectional } = options;
    const seeing = isBidirectional === undefined ? {} : { isBidirectional };
    this.core = new EngineCore({
      name: "recorded",
      device,
      model: {
        spec: { hiddenSize: HIDDEN, vocabSize: VOCAB, caches: groups, ...seeing } as never,
        hidden: device.hidden,
        logits: device.logits,
        forward: () => device.lines.push("forward"),
        computeLogits: (batch, first, n) => device.gatherLogitRows(device.hidden, device.hidden, batch, first, n),
      },
      caches,
      pageSize,
      cache: this.cache,
      scheduler,
      planners: options.planners ?? ([] as AttentionPlanner[]),
      maxLogitRows: options.maxLogitRows ?? 16,
      maxContext: options.maxContext ?? 100,
      eosIds: options.eosIds ?? [],
      compiler: options.compiler ?? null,
      ...(options.layers === undefined ? {} : { layers: options.layers }),
      clock,
    });
  }

  /** Greedy, unless `sampling` says otherwise; the prompt is tokens from 1 on where only its length is given. */
  add(
    callId: string,
    prompt: number | readonly number[],
    sampling: Partial<SamplingParams> = {},
    fields: Partial<AddMessage> = {},
    hook: LogitsHook | null = null,
  ): void {
    const tokens = typeof prompt === "number" ? Array.from({ length: prompt }, (_, i) => i + 1) : prompt;
    this.core.add(
      {
        ...{ type: "add", callId, kind: "generate", prompt: Int32Array.from(tokens), priority: 0, salt: callId },
        ...{ sampling: { ...SAMPLING_DEFAULTS, temperature: 0, seed: 3, maxTokens: 2, ...sampling } },
        ...{ arrivalMs: 900, constraint: null, ...fields },
      },
      hook,
    );
  }

  /** What the device was asked for since the last call. */
  lines(): string[] {
    return this.device.lines.splice(0);
  }

  /** One step, ten milliseconds later, and what the device was asked for in it. */
  step(): string[] {
    this.now += 10;
    this.core.step();
    this.core.checkIntegrity();
    return this.lines();
  }

  /** Steps until nothing is left. */
  drain(): string[] {
    const lines: string[] = [];
    for (let i = 0; this.core.hasWork && i < 1000; i++) lines.push(...this.step());
    return lines;
  }

  outputs(): readonly RequestOutput[] {
    return outputsOf(this.core);
  }

  /** "call#sample tokens", then how it ended, in order. */
  answers(): string[] {
    return this.outputs().map(({ callId, index, tokens, finishReason, stopToken, error }) =>
      [
        `${callId}#${index} ${tokens.join()}`,
        ...(finishReason === null ? [] : [finishReason]),
        ...(stopToken < 0 ? [] : [`at ${stopToken}`]),
        ...(error === null ? [] : [`(${error.details.reason ?? error.code})`]),
      ].join(" "),
    );
  }
}
