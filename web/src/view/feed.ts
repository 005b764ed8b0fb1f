// The engine as it happens: one stream of steps, a look at the totals each second, the page map after steps have changed it.
// Connections that break are made again.

import type { CacheView, Stats, StepRecord } from "../data/wire.js";
import { type Api, ApiFailure } from "./api.js";
import { Signal } from "./signal.js";

const STATS_MS = 1000;
const CACHE_MS = 500;
const RETRY_MS = 1500;

export type Connection = "connecting" | "live" | "offline" | "denied";

export class Feed {
  readonly connection = new Signal<Connection>("connecting");
  readonly stats = new Signal<Stats | null>(null);
  readonly cache = new Signal<CacheView | null>(null);
  onHistory: (steps: readonly StepRecord[]) => void = () => undefined;
  onStep: (step: StepRecord) => void = () => undefined;
  /** Whether anybody sees the page map or the trie: taking their picture holds up the engine for a moment. */
  isCacheSeen: () => boolean = () => true;

  readonly #api: Api;
  #hasNewSteps = true;

  constructor(api: Api) {
    this.#api = api;
  }

  start(): void {
    void this.#forever(0, () => this.#followSteps());
    void this.#forever(STATS_MS, async () => this.stats.set(await this.#api.json<Stats>("/api/stats")));
    void this.#forever(CACHE_MS, () => this.#lookAtCache());
  }

  async #followSteps(): Promise<void> {
    for await (const { event, data } of this.#api.events("/api/steps", null, new AbortController().signal)) {
      this.connection.set("live");
      this.#hasNewSteps = true;
      if (event === "history") this.onHistory(JSON.parse(data) as StepRecord[]);
      else this.onStep(JSON.parse(data) as StepRecord);
    }
    throw new Error("the stream of steps ended"); // only the server's end ends it
  }

  async #lookAtCache(): Promise<void> {
    if (!this.#hasNewSteps || document.hidden || !this.isCacheSeen()) return;
    this.#hasNewSteps = false;
    const startMs = performance.now();
    this.cache.set(await this.#api.json<CacheView>("/api/cache"));
    // A pool of very many pages takes a while to describe: leave the server most of its time for other things.
    await pause(6 * (performance.now() - startMs));
  }

  /** Runs again and again, `everyMs` after the last time ended, later after a failure. */
  async #forever(everyMs: number, run: () => Promise<void>): Promise<never> {
    for (;;) {
      try {
        await run();
        await pause(everyMs);
      } catch (error) {
        const isDenied = error instanceof ApiFailure && error.status === 401;
        this.#hasNewSteps = true;
        // A server that answers, if only with an error, is there; its health tells the rest.
        if (isDenied) {
          this.connection.set("denied");
          await this.#api.nextKey();
        } else {
          if (!(error instanceof ApiFailure)) this.connection.set("offline");
          await pause(RETRY_MS);
        }
      }
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
