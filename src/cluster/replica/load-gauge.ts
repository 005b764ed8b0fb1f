// What a replica says of its load: the engine's own counts, and how fast it computes prompts, measured on its steps.

import type { Engine, EngineStats, StepRecord } from "../../engine/types.js";
import type { ReplicaLoad } from "../membership/registration.js";

/** Until something was measured. */
const FIRST_GUESS = 1000;
const DECAY = 0.9;

/** Prompt tokens in a second, over the steps of late. */
export class PromptSpeed {
  #tokens = 0;
  #ms = 0;

  /** A step that computed some of a prompt; those that only answer say little of how fast a prompt is computed. */
  note(tokens: number, ms: number): void {
    this.#tokens = DECAY * this.#tokens + tokens;
    this.#ms = DECAY * this.#ms + ms;
  }

  get tokensPerSecond(): number {
    return this.#ms > 0 ? Math.max(1, (1000 * this.#tokens) / this.#ms) : FIRST_GUESS;
  }
}

export class LoadGauge {
  readonly #engine: Engine;
  readonly #leave = new AbortController();
  #stats: EngineStats | null = null;
  #isAsking = false;
  readonly #speed = new PromptSpeed();

  constructor(engine: Engine) {
    this.#engine = engine;
    void this.#follow();
  }

  /** Asks the engine, which may be in a step: never waited for by those who only want to know the last answer. */
  async refresh(): Promise<void> {
    if (this.#isAsking || this.#engine.health().state !== "ready") return;
    this.#isAsking = true;
    try {
      this.#stats = await this.#engine.stats();
    } catch {
      // its thread ended; there is another soon
    } finally {
      this.#isAsking = false;
    }
  }

  load(): Pick<ReplicaLoad, keyof ReplicaLoad & (keyof EngineStats | "tokensPerSecond")> {
    const stats = this.#stats;
    return {
      tokensPerSecond: this.#speed.tokensPerSecond,
      running: stats?.running ?? 0,
      waiting: stats?.waiting ?? 0,
      pagesUsed: stats?.pagesUsed ?? 0,
      pagesTotal: stats?.pagesTotal ?? 0,
      pagesCached: stats?.pagesCached ?? 0,
      promptTokens: stats?.promptTokens ?? 0,
      cachedTokens: stats?.cachedTokens ?? 0,
      generatedTokens: stats?.generatedTokens ?? 0,
      requestsFinished: stats?.requestsFinished ?? 0,
    };
  }

  close(): void {
    this.#leave.abort();
  }

  async #follow(): Promise<void> {
    for await (const step of this.#engine.inspect.steps({ signal: this.#leave.signal })) this.measure(step);
  }

  measure({ prefills, tokens, durationMs }: StepRecord): void {
    if (prefills > 0) this.#speed.note(tokens, durationMs);
  }
}
