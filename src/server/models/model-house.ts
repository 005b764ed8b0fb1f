// The models of a server. The first is there from the start; the others are guests: loaded when a request first names them, and
// unloaded, the least recently used first, when another needs their memory. A guest that somebody asks something of is never unloaded.

import type { AdapterInfo, Engine } from "../../engine/types.js";
import type { ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";
import type { GuestModel } from "./guest-model.js";

interface Room {
  readonly guest: GuestModel;
  /** Requests that chose it and are not answered yet, or not begun to be: from then on a stream is one of its calls. */
  readonly askers: Set<object>;
  context: ServerContext | null;
  loading: Promise<ServerContext> | null;
  bytes: number;
  lastUsedMs: number;
}

export interface HouseOptions {
  /** For the weights of guests together; null: no limit. */
  readonly maxBytes: number | null;
  /** What routes need around a guest's engine. */
  furnish(engine: Engine, name: string): ServerContext;
  /** How a model that comes later is opened. */
  guestOf(model: string): GuestModel;
}

const LOOK_MS = 100;
const PATIENCE_MS = 60_000;

export class ModelHouse {
  readonly #first: ServerContext;
  readonly #rooms: Room[];
  readonly #options: HouseOptions;
  #lastLoad: Promise<void> = Promise.resolve();

  constructor(first: ServerContext, guests: readonly GuestModel[], options: HouseOptions) {
    this.#first = first;
    this.#options = options;
    this.#rooms = guests.map(roomOf);
  }

  /** A model that has come since; one that has the name already keeps it. */
  add(model: string): void {
    if (!this.names.includes(model)) this.#rooms.push(roomOf(this.#options.guestOf(model)));
  }

  /** Names it no longer; false while others than the asker use it, or where it is the first. */
  async remove(name: string, asker: object): Promise<boolean> {
    if (this.#first.modelNames.includes(name)) return false;
    const at = this.#rooms.findIndex(({ guest }) => guest.name === name);
    if (at < 0) return true;
    const room = this.#rooms[at]!;
    if (room.loading !== null || isUsed(room, asker)) return false;
    this.#rooms.splice(at, 1); // before it closes: nobody enters any more
    if (room.context !== null) await this.#empty(room);
    return true;
  }

  get names(): string[] {
    return [...this.#first.modelNames, ...this.#rooms.map(({ guest }) => guest.name), ...this.adapters.keys()];
  }

  /** The adapters of loaded models by name, each with its model's. */
  get adapters(): Map<string, { readonly parent: string; readonly adapter: AdapterInfo }> {
    return new Map(
      this.loaded.flatMap(({ engine, modelNames }) =>
        engine.adapters.map((adapter) => [adapter.name, { parent: modelNames[0]!, adapter }] as const),
      ),
    );
  }

  /** The contexts of all models that are loaded, the first model's first. */
  get loaded(): ServerContext[] {
    return [this.#first, ...this.#rooms.flatMap(({ context }) => (context === null ? [] : [context]))];
  }

  /** The longest of all models'; Infinity while one is not loaded, and not known. */
  get maxContext(): number {
    const contexts = this.#rooms.map(({ context }) => context?.engine.model.maxContext ?? Number.POSITIVE_INFINITY);
    return Math.max(this.#first.engine.model.maxContext, ...contexts);
  }

  /** A model sees, or may: one that is not loaded is not known. */
  get mayHaveEyes(): boolean {
    return (
      this.#first.engine.model.hasEyes ||
      this.#rooms.some(({ context }) => context === null || context.engine.model.hasEyes)
    );
  }

  bytesOf(name: string): number {
    return this.#rooms.find(({ guest }) => guest.name === name)?.bytes ?? 0;
  }

  /**
   * Where a request for the model belongs; the model stays until the asker has left. Names that nobody has go to the first, whose
   * routes refuse them.
   */
  async contextFor(model: string | undefined, asker: object): Promise<ServerContext> {
    const name = model?.replace(/:latest$/, "");
    const room = this.#rooms.find(({ guest }) => guest.name === model || guest.name === name);
    if (room === undefined) return this.#adapted(model) ?? this.#first;
    room.askers.add(asker);
    room.lastUsedMs = performance.now();
    if (room.context !== null && !isAsleep(room)) return room.context;
    room.loading ??= this.#load(room).finally(() => {
      room.loading = null;
    });
    return room.loading;
  }

  /** The context of a model, without loading it: null when it is not loaded. Names that nobody has are the first's, as above. */
  contextNow(model: string | undefined): ServerContext | null {
    const name = model?.replace(/:latest$/, "");
    const room = this.#rooms.find(({ guest }) => guest.name === model || guest.name === name);
    return room === undefined ? (this.#adapted(model) ?? this.#first) : room.context;
  }

  /** The context of the model that has an adapter of this name. */
  #adapted(model: string | undefined): ServerContext | null {
    if (model === undefined || this.#first.modelNames.includes(model)) return null;
    const context = this.loaded.find(({ engine }) => engine.adapters.some(({ name }) => name === model));
    return context === undefined ? null : { ...context, adapter: model, modelNames: [model] };
  }

  /** The asker's answer is there, or one of the calls. */
  leave(asker: object): void {
    for (const { askers } of this.#rooms) askers.delete(asker);
  }

  /** Unloads a guest, and lets the first model's memory go; false when others than the asker use it, or it is not loaded. */
  async unload(name: string, asker: object): Promise<boolean> {
    if (this.#first.modelNames.includes(name)) return this.#first.calls.size === 0 && this.#first.engine.sleep();
    const room = this.#rooms.find(({ guest, context }) => guest.name === name && context !== null);
    if (room === undefined || isUsed(room, asker)) return false;
    await this.#empty(room);
    return true;
  }

  async close(): Promise<void> {
    for (const room of this.#rooms) {
      await room.loading?.catch(() => undefined);
      if (room.context !== null) await this.#empty(room);
    }
  }

  /** One after the other: two that load at once would each wait for the memory of the other. */
  async #load(room: Room): Promise<ServerContext> {
    const endMs = performance.now() + PATIENCE_MS;
    const turn = this.#lastLoad.then(() => this.#loadNow(room, endMs));
    this.#lastLoad = turn.then(
      () => undefined,
      () => undefined,
    );
    return turn;
  }

  async #loadNow(room: Room, endMs: number): Promise<ServerContext> {
    if (room.context !== null) await this.#empty(room); // it slept
    await this.#makeRoom(room, endMs);
    let engine: Engine;
    try {
      engine = await room.guest.load((bytes) => {
        room.bytes = bytes;
      });
    } catch (error) {
      this.#first.log.error({ err: error, model: room.guest.name }, "a model could not be loaded");
      const message = `The model ${JSON.stringify(room.guest.name)} could not be loaded; the server's log says why.`;
      throw new ApiError("model_unavailable", message, { param: "model" });
    }
    room.context = this.#options.furnish(engine, room.guest.name);
    room.lastUsedMs = performance.now();
    await this.#makeRoom(room, performance.now() + PATIENCE_MS); // its size is known for certain only now
    return room.context;
  }

  /** Unloads others until what is known of all sizes fits; waits for those that are in use. */
  async #makeRoom(room: Room, endMs: number): Promise<void> {
    const { maxBytes } = this.#options;
    if (maxBytes === null) return;
    for (;;) {
      const others = this.#rooms.filter((other) => other !== room && other.context !== null && !isAsleep(other));
      const total = others.reduce((sum, other) => sum + other.bytes, room.bytes);
      // A guest larger than the budget runs alone: refusing it would help nobody.
      if (total <= maxBytes || others.length === 0) return;
      const nowMs = performance.now();
      const idle = others.filter((other) => !isUsed(other, null)).sort((a, b) => a.lastUsedMs - b.lastUsedMs)[0];
      if (idle !== undefined) await this.#empty(idle);
      else if (nowMs > endMs) throw busy(room.guest.name);
      else await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  async #empty(room: Room): Promise<void> {
    const { engine } = room.context!;
    room.context = null;
    await engine.close();
  }
}

function roomOf(guest: GuestModel): Room {
  return { guest, askers: new Set(), context: null, loading: null, bytes: 0, lastUsedMs: 0 };
}

/** Its memory is free; what wakes it makes room for it first. */
function isAsleep({ context }: Room): boolean {
  return context!.engine.health().state === "asleep";
}

/** By others than the asker. */
function isUsed({ context, askers }: Room, asker: object | null): boolean {
  return (context?.calls.size ?? 0) > 0 || [...askers].some((other) => other !== asker);
}

function busy(name: string): ApiError {
  const message = `There is no memory for the model ${JSON.stringify(name)} while others are in use. Retry later, or raise modelMemoryMb.`;
  return new ApiError("model_unavailable", message, { param: "model", headers: { "retry-after": "5" } });
}
