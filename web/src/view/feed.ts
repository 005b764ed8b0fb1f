// The engine as it happens: one stream of steps, a look at the totals each second, the page map after steps have changed it. Of a
// server with several models, the one that is chosen. Connections that break are made again.

import type { CacheView, ServedModel, Stats, StepRecord } from "../data/wire.js";
import { type Api, ApiFailure } from "./api.js";
import { Signal } from "./signal.js";

const STATS_MS = 1000;
const CACHE_MS = 500;
/** Out of sight the page map and the trie are looked at this seldom: taking their picture holds up the engine for a moment. */
const UNSEEN_CACHE_MS = 5000;
const MODELS_MS = 2000;
const RETRY_MS = 1500;

export type Connection = "connecting" | "live" | "offline" | "denied";

export class Feed {
  readonly connection = new Signal<Connection>("connecting");
  readonly stats = new Signal<Stats | null>(null);
  readonly cache = new Signal<CacheView | null>(null);
  readonly models = new Signal<readonly ServedModel[]>([]);
  /** The chosen one; null: the first, of a server that may have no other. */
  readonly model = new Signal<string | null>(null);
  onHistory: (steps: readonly StepRecord[]) => void = () => undefined;
  onStep: (step: StepRecord) => void = () => undefined;
  /** Whether anybody sees the page map or the trie. */
  isCacheSeen: () => boolean = () => true;

  readonly #api: Api;
  #hasNewSteps = true;
  #knowsModels = false;
  #cacheMs = Number.NEGATIVE_INFINITY;
  #following = new AbortController();

  constructor(api: Api) {
    this.#api = api;
  }

  start(): void {
    void this.#forever(0, () => this.#followSteps());
    void this.#forever(STATS_MS, () => this.#lookAtStats());
    void this.#forever(CACHE_MS, () => this.#lookAtCache());
    void this.#forever(MODELS_MS, () => this.#lookAtModels());
  }

  /** Watches this model from now on, if the server has it. */
  choose(name: string | null): void {
    const known = this.models.value;
    if (name === this.model.value || !known.some(({ id }) => id === name)) return;
    this.stats.set(null);
    this.onHistory([]);
    this.model.set(name);
    this.#hasNewSteps = true;
    this.#cacheMs = Number.NEGATIVE_INFINITY;
    this.#following.abort();
  }

  /** A model that is not loaded has nothing to look at: its first request loads it. */
  get isLoaded(): boolean {
    const name = this.model.value;
    return this.models.value.find(({ id }) => id === name)?.is_loaded ?? true;
  }

  pathOf(path: string): string {
    const name = this.model.value;
    return name === null ? path : `${path}?model=${encodeURIComponent(name)}`;
  }

  /** Which models there are is asked once per connection; which of several are loaded, again and again. */
  async #lookAtModels(): Promise<void> {
    if (!this.#knowsModels) {
      const { data } = await this.#api.json<{ data: readonly ServedModel[] }>("/v1/models");
      this.#knowsModels = true;
      this.models.set(data);
    }
    if (this.models.value.length < 2) return;
    const { models } = await this.#api.json<{ models: readonly { readonly name: string }[] }>("/api/ps");
    const loaded = new Set(models.map(({ name }) => name));
    this.models.set(this.models.value.map(({ id }) => ({ id, is_loaded: loaded.has(id) })));
  }

  async #lookAtStats(): Promise<void> {
    if (!this.isLoaded) {
      this.stats.set(null);
      return;
    }
    const path = this.pathOf("/api/stats");
    const stats = await this.#api.json<Stats>(path);
    if (path === this.pathOf("/api/stats")) this.stats.set(stats);
  }

  async #followSteps(): Promise<void> {
    if (!this.isLoaded) {
      await pause(STATS_MS);
      return;
    }
    this.#following = new AbortController();
    const { signal } = this.#following;
    try {
      for await (const { event, data } of this.#api.events(this.pathOf("/api/steps"), null, signal)) {
        this.connection.set("live");
        this.#hasNewSteps = true;
        if (event === "history") this.onHistory(JSON.parse(data) as StepRecord[]);
        else this.onStep(JSON.parse(data) as StepRecord);
      }
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    throw new Error("the stream of steps ended"); // only the server's end ends it
  }

  async #lookAtCache(): Promise<void> {
    const isDue = this.isCacheSeen() || performance.now() - this.#cacheMs > UNSEEN_CACHE_MS;
    if (!this.#hasNewSteps || document.hidden || !isDue || !this.isLoaded) return;
    this.#hasNewSteps = false;
    const startMs = performance.now();
    const path = this.pathOf("/api/cache");
    const cache = await this.#api.json<CacheView>(path);
    if (path !== this.pathOf("/api/cache")) return;
    this.#cacheMs = performance.now();
    this.cache.set(cache);
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
          if (!(error instanceof ApiFailure)) {
            this.connection.set("offline");
            this.#knowsModels = false; // another server may be there next time
          }
          await pause(RETRY_MS);
        }
      }
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
