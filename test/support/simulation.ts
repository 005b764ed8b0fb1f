// Scheduler and cache at work without a model. The "KV cache" of every group is one integer per slot: a hash of all tokens up to
// that position, computed from the slot before it; a "state" is the hash of all tokens so far. The next token is read from what every
// group holds, so a wrong, stale or foreign page changes the output, as it would with a real model. Each step is checked against
// the rules of docs/internals/scheduler.md.

import assert from "node:assert/strict";
import type { GroupOptions } from "../../src/cache/cache-group.js";
import { CacheManager, type PageCopy } from "../../src/cache/cache-manager.js";
import { HostTier, type PageMemory } from "../../src/cache/host-tier.js";
import type { StateCopies } from "../../src/cache/state-slots.js";
import { visibleStart } from "../../src/core/attention-plan.js";
import type { Batch } from "../../src/core/batch.js";
import type { RequestId } from "../../src/core/ids.js";
import { type MediumSpan, NO_MEDIA } from "../../src/core/media.js";
import { Request } from "../../src/core/request.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";
import { Scheduler, type SchedulerOptions, type Step } from "../../src/scheduler/scheduler.js";

/** The batch of a step, as the engine makes it, with logits of no token. */
export function addRows(batch: Batch, step: Step): void {
  for (let r = 0; r < step.numRows; r++) {
    const { tokens, tables } = step.rows[r]!;
    batch.addRow(tokens, step.starts[r]!, step.queryLens[r]!, tables[0]!.pages, Number.POSITIVE_INFINITY);
  }
}

export interface SimulationOptions extends Partial<SchedulerOptions> {
  /** Pages a request can own: the null page comes on top. */
  readonly pages?: number;
  /** The model's cache groups; default: one full group of `pages`. */
  readonly groups?: readonly GroupOptions[];
  readonly prefixCaching?: boolean;
  /** Bytes of a second tier; default: none. A page's content is 4 bytes a token, a state 4. */
  readonly hostBytes?: number;
  /** Time that a token takes; default: none at all. */
  readonly msPerToken?: number;
}

export interface RequestOptions {
  readonly priority?: number;
  readonly salt?: string;
  readonly client?: string;
  readonly maxTokens?: number;
  readonly n?: number;
  readonly promptLogprobs?: number | null;
  readonly isAtomic?: boolean;
  readonly media?: readonly MediumSpan[];
}

/** A request with these prompt tokens. */
export function makeRequest(id: string, prompt: ArrayLike<number>, options: RequestOptions = {}): Request {
  const {
    priority = 0,
    salt = "",
    client = "",
    maxTokens = 1,
    n = 1,
    promptLogprobs = null,
    isAtomic = false,
    media = NO_MEDIA,
  } = options;
  const sampling: SamplingParams = { ...SAMPLING_DEFAULTS, seed: 0, maxTokens, n, promptLogprobs };
  const readsCache = promptLogprobs === null;
  return new Request({ id: id as RequestId, prompt, sampling, priority, salt, client, readsCache, isAtomic, media });
}

/** The same prompt and tokens as the parent's, its last token replaced by `token`: as a sampler would fork it. */
export function forkOf(parent: Request, id: string, token: number, options: RequestOptions = {}): Request {
  const child = makeRequest(id, parent.tokens.slice(0, parent.promptLen), {
    ...options,
    salt: parent.salt,
    client: parent.client,
  });
  for (let i = parent.promptLen; i < parent.numTokens - 1; i++) child.appendToken(parent.tokens[i]!);
  child.appendToken(token);
  return child;
}

/** `length` tokens that no other `series` shares. */
export function tokensOf(series: number, length: number): number[] {
  return Array.from({ length }, (_, i) => series * 100_000 + i);
}

export interface Row {
  readonly id: string;
  readonly start: number;
  readonly queryLen: number;
}

export function rowsOf(step: Step | null): Row[] {
  if (step === null) return [];
  return step.rows
    .slice(0, step.numRows)
    .map((request, i) => ({ id: request.id, start: step.starts[i]!, queryLen: step.queryLens[i]! }));
}

export class Simulation {
  readonly cache: CacheManager;
  readonly scheduler: Scheduler;
  readonly pageSize: number;
  readonly maxChunk: number;
  readonly mode: "extend" | "chunked";
  readonly finished: Request[] = [];
  readonly #msPerToken: number;
  nowMs = 0;
  readonly groups: readonly GroupOptions[];
  readonly #kv: readonly Int32Array[]; // [G] of [pages * P], or of [slots] for a state

  constructor(options: SimulationOptions = {}) {
    const {
      mode = "extend",
      pageSize = 16,
      maxPagesPerBatch = 16,
      idealChunk = 128,
      fixedChunk = idealChunk,
    } = options;
    this.#msPerToken = options.msPerToken ?? 0;
    this.mode = mode;
    this.pageSize = pageSize;
    this.maxChunk = Math.max(pageSize, mode === "extend" ? idealChunk : fixedChunk);
    this.groups = options.groups ?? [{ kind: "full", numPages: (options.pages ?? 1000) + 1 }];
    this.#kv = this.groups.map(({ kind, numPages }) =>
      new Int32Array(kind === "state" ? numPages : numPages * pageSize).fill(-1),
    );
    this.cache = new CacheManager({
      hostTier: options.hostBytes === undefined ? null : new HostTier(options.hostBytes, this.#pageMemory()),
      pageSize,
      prefixCaching: options.prefixCaching ?? true,
      maxChunk: this.maxChunk,
      groups: this.groups,
    });
    const schedulerOptions = { ...options, mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk };
    this.scheduler = new Scheduler(schedulerOptions, this.cache, () => this.nowMs);
  }

  add(id: string, prompt: ArrayLike<number>, options: RequestOptions = {}): Request {
    const request = makeRequest(id, prompt, options);
    this.scheduler.add(request);
    return request;
  }

  /** Schedules, computes and commits one step; returns its rows. */
  step(): Row[] {
    this.nowMs++;
    const step = this.scheduler.schedule();
    this.finished.push(...this.scheduler.takeRefused());
    if (step === null) {
      this.checkIdle();
      return [];
    }
    this.checkRules(step);
    this.computeStep(step);
    this.nowMs += this.#msPerToken * step.numTokens;
    this.scheduler.land(step);
    const rows = rowsOf(step);
    for (const request of step.rows.slice(0, step.numRows)) {
      if (request.numComputed === request.numTokens) this.appendNext(request);
    }
    return rows;
  }

  /** The rows of every step until nothing can run. */
  runAll(limit = 10_000): Row[][] {
    const steps: Row[][] = [];
    for (let rows = this.step(); rows.length > 0; rows = this.step()) {
      assert.ok(steps.push(rows) <= limit, `still running after ${limit} steps`);
    }
    return steps;
  }

  appendNext(request: Request): void {
    request.appendToken(nextToken(this.#lastHash(request)));
    if (request.numGenerated < request.sampling.maxTokens) return;
    this.scheduler.finish(request, "length");
    this.finished.push(request);
  }

  copy(copy: PageCopy | null): void {
    if (copy === null) return;
    const { pageSize } = this;
    for (const [g, from] of copy.from.entries()) {
      if (this.groups[g]!.kind !== "state")
        this.#kv[g]!.copyWithin(copy.to[g]! * pageSize, from * pageSize, (from + 1) * pageSize);
    }
  }

  /** As the engine does: copies of states, the forward, more copies of states. */
  computeStep(step: Step): void {
    const { states } = this.cache;
    if (states !== null) this.#copyStates(states.before);
    for (let r = 0; r < step.numRows; r++) this.compute(step.rows[r]!, step.starts[r]!, step.queryLens[r]!);
    if (states !== null) this.#copyStates(states.after);
  }

  compute(request: Request, start: number, queryLen: number): void {
    for (const [g, kv] of this.#kv.entries()) {
      const isState = this.groups[g]!.kind === "state";
      // The first token of an attention chunk sees nothing before it.
      let hash = this.#sees(g, start, start - 1) ? kv[this.#slot(request, g, start - 1)]! : hashOf(request, start);
      for (let pos = start; pos < start + queryLen; pos++) {
        hash = mix(hash, request.tokens[pos]!);
        if (!isState) kv[this.#slot(request, g, pos)] = hash;
      }
      if (isState) kv[this.#slot(request, g, 0)] = hash;
    }
  }

  /** Every computed position that a later token can see reads back what the request's own tokens give. */
  checkContent(request: Request): void {
    const hashes: number[] = [];
    for (let pos = 0, hash = seedOf(request.salt); pos < request.numComputed; pos++) {
      hash = mix(hash, request.tokens[pos]!);
      hashes.push(hash);
    }
    for (const [g, { kind, window = 0, attentionChunk = 0 }] of this.groups.entries()) {
      const kv = this.#kv[g]!;
      if (kind === "state") {
        if (hashes.length > 0 && !this.#isRestorePending(request, g))
          assert.equal(kv[this.#slot(request, g, 0)], hashes.at(-1), `${request.id} has a foreign state`);
        continue;
      }
      const first = visibleStart({ window, attentionChunk }, request.numComputed);
      for (let pos = first; pos < request.numComputed; pos++) {
        assert.equal(
          kv[this.#slot(request, g, pos)],
          hashes[pos],
          `${request.id} reads foreign KV at ${pos} of group ${g}`,
        );
      }
    }
  }

  /** Nothing ran, so nothing could: no running request lacks a token, and nobody waits for nothing. */
  checkIdle(): void {
    for (const request of this.scheduler.running()) assert.equal(request.numComputed, request.numTokens);
    if (this.scheduler.numRunning === 0) assert.equal(this.scheduler.numWaiting, 0);
  }

  checkRules(step: Step): void {
    const { pageSize } = this;
    const seen = new Set<Request>();
    let numTokens = 0;
    let numDecodes = 0;
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      const start = step.starts[r]!;
      const queryLen = step.queryLens[r]!;
      const end = start + queryLen;
      assert.equal(request.state, "running");
      assert.ok(!seen.has(request), `${request.id} has two rows in one step`);
      seen.add(request);
      const most = request.isAtomic ? request.numTokens : this.maxChunk;
      assert.ok(queryLen >= 1 && queryLen <= most, `${request.id}: chunk of ${queryLen}`);
      assert.equal(end, request.numComputed);
      assert.ok(end <= request.numTokens);
      for (const [g, { kind, window = 0, attentionChunk = 0 }] of this.groups.entries()) {
        if (kind === "state") continue;
        const { numPages, numHeld } = request.tables[g]!;
        assert.ok(numPages * pageSize >= end, `${request.id} has no page for its tokens in group ${g}`);
        const most = Math.ceil((window + attentionChunk + this.maxChunk) / pageSize) + 1;
        if (kind === "window")
          assert.ok(numHeld <= most, `${request.id} holds ${numHeld} pages of a window, at most ${most}`);
      }
      const isDecode = start >= request.promptLen && start === request.numTokens - 1;
      if (!isDecode) assert.equal(start % pageSize, 0, `${request.id}: chunk starts inside a page`);
      if (end < request.numTokens) assert.equal(end % pageSize, 0, `${request.id}: chunk ends inside a page`);
      if (isDecode) numDecodes++;
      numTokens += queryLen;
    }
    assert.ok(this.scheduler.numRunning <= this.scheduler.budget, "more running requests than rows");
    assert.equal(step.numTokens, numTokens);
    assert.ok(numTokens <= this.scheduler.budget, `${numTokens} tokens exceed the budget`);
    if (this.mode === "chunked") assert.ok(numDecodes === 0 || numDecodes === step.numRows, "prefill and decode mixed");
  }

  checkIntegrity(): void {
    this.cache.checkIntegrity(this.scheduler.running());
    this.cache.checkIntegrity([...this.scheduler.running(), ...this.scheduler.waiting(), ...this.finished]);
  }

  #pageMemory(): PageMemory {
    const pageBytes = this.groups.map(({ kind }) => 4 * (kind === "state" ? 1 : this.pageSize));
    const bytesOf = (g: number, page: number) =>
      new Uint8Array(this.#kv[g]!.buffer, page * pageBytes[g]!, pageBytes[g]!);
    return {
      pageBytes,
      numPages: this.groups.map(({ numPages }) => numPages),
      allocHost: (bytes) => new Uint8Array(bytes),
      save: (out, g, page) => out.set(bytesOf(g, page)),
      load: (g, page, bytes) => bytesOf(g, page).set(bytes),
    };
  }

  #copyStates(copies: StateCopies): void {
    const kv = this.#kv[this.cache.stateIndex]!;
    for (let i = 0; i < copies.count; i++) kv[copies.to[i]!] = kv[copies.from[i]!]!;
    copies.clear();
  }

  /** Its state is copied before the next forward. */
  #isRestorePending(request: Request, g: number): boolean {
    const { to, count } = this.cache.states!.before;
    return to.subarray(0, count).includes(request.tables[g]!.pages[0]!);
  }

  /** What every group holds of the request's last token. */
  #lastHash(request: Request): number {
    const last = request.numTokens - 1;
    const hashes = this.#kv
      .filter((_, g) => this.#sees(g, last + 1, last))
      .map((kv) => kv[this.#slot(request, this.#kv.indexOf(kv), last)]!);
    for (const hash of hashes) assert.equal(hash, hashes[0], `${request.id}: its groups differ`);
    return hashes[0]!;
  }

  #sees(g: number, position: number, key: number): boolean {
    const { window = 0, attentionChunk = 0 } = this.groups[g]!;
    return key >= Math.max(0, visibleStart({ window, attentionChunk }, position));
  }

  #slot(request: Request, g: number, pos: number): number {
    const { pages } = request.tables[g]!;
    if (this.groups[g]!.kind === "state") return pages[0]!;
    const page = pages[Math.floor(pos / this.pageSize)]!;
    assert.ok(page > 0, `${request.id} reads a page it has given back`);
    return page * this.pageSize + (pos % this.pageSize);
  }
}

/** What the request generates, whatever else runs: the oracle. */
export function expectedTokens(prompt: ArrayLike<number>, numTokens: number, salt = ""): number[] {
  let hash = seedOf(salt);
  for (let i = 0; i < prompt.length; i++) hash = mix(hash, prompt[i]!);
  const tokens: number[] = [];
  while (tokens.length < numTokens) {
    tokens.push(nextToken(hash));
    hash = mix(hash, tokens.at(-1)!);
  }
  return tokens;
}

/** Of the first `length` tokens. */
function hashOf(request: Request, length: number): number {
  let hash = seedOf(request.salt);
  for (let i = 0; i < length; i++) hash = mix(hash, request.tokens[i]!);
  return hash;
}

function nextToken(hash: number): number {
  return (hash >>> 3) % 1000;
}

function seedOf(salt: string): number {
  let hash = 17;
  for (const character of salt) hash = mix(hash, character.codePointAt(0)!);
  return hash;
}

function mix(hash: number, token: number): number {
  const product = Math.imul(hash ^ token, 0x85ebca6b);
  return product ^ (product >>> 13);
}
