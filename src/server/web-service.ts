// The service around an engine, on web standards: a Request in, a Response out, whoever listens. The library's way to it is `createHandler`
// (server.ts); http-service.ts puts a socket in front.

import type { Hono } from "hono";
import { findChatForm } from "../chat/chat-form.js";
import type { ServerConfig } from "../config/server-config.js";
import { packageVersion } from "../config/version.js";
import { CapacityError } from "../core/errors.js";
import { asServed } from "../engine/served-engine.js";
import type { Engine } from "../engine/types.js";
import { listModels } from "../formats/hub/models.js";
import { createApp } from "./app.js";
import { type BatchRoom, openBatchRoom } from "./batch/batch-room.js";
import type { AppEnv, ServerContext } from "./context.js";
import { Owners } from "./dashboard/owners.js";
import { KeyRing } from "./http/auth.js";
import { BodyThread } from "./http/body-thread.js";
import { Gate } from "./http/gate.js";
import { stderrSink } from "./http/log-sink.js";
import { type Logger, stderrLogger } from "./http/logger.js";
import type { Route } from "./http/route.js";
import { SeenFields } from "./http/seen-fields.js";
import { ServerMetrics } from "./metrics/metrics.js";
import { measureProcess } from "./metrics/process-metrics.js";
import { Tracer } from "./metrics/tracer.js";
import type { GuestModel } from "./models/guest-model.js";
import { ModelHouse } from "./models/model-house.js";
import { ResponseStore } from "./openai/response-store.js";

export interface WebServiceOptions {
  readonly guests?: readonly GuestModel[] | undefined;
  /** How models of the hub's cache are opened (hubModels). Default: as `createEngine({ model })`. */
  readonly guestOf?: ((model: string) => GuestModel) | undefined;
  readonly routes?: readonly Route[] | undefined;
  readonly logger?: Logger | undefined;
  /** It is part of somebody's application, under this path, which looks after its own hosts and origins. */
  readonly mountedAt?: string | undefined;
  /** Whose a request is, where no key says it. */
  readonly clientOf?: ((request: Request) => string) | undefined;
}

/** Answers requests to an engine, which stays the caller's to close. */
export class WebService {
  readonly context: ServerContext;
  readonly app: Hono<AppEnv>;
  readonly #watching = new AbortController();
  readonly #house: ModelHouse;
  readonly #batches: BatchRoom | null;

  constructor(engine: Engine, config: ServerConfig, options: WebServiceOptions = {}) {
    const { guests = [], routes = [], logger = stderrLogger(config.logLevel) } = options;
    const shared = {
      config,
      gate: new Gate(config),
      bodies: new BodyThread(),
      owners: new Owners(),
      responses: new ResponseStore(),
      seenFields: new SeenFields(),
      keys: new KeyRing(config.apiKey, config.adminKey),
      log: logger,
      tracer: config.otlpEndpoint === null ? null : new Tracer(config.otlpEndpoint, packageVersion(), logger),
      startedMs: Date.now(),
      version: packageVersion(),
    };
    const furnish = (engine: Engine, modelNames: readonly string[]): ServerContext => {
      const served = asServed(engine);
      const metrics = new ServerMetrics(engine, shared.gate, modelNames[0]!, () => stderrSink.lost);
      void metrics.watchSteps(this.#watching.signal);
      return {
        ...shared,
        engine: served,
        adapter: null,
        modelNames,
        metrics,
        calls: new Set(),
        form: findChatForm(served, config.toolParser, config.reasoningParser),
        get house() {
          return house();
        },
        get batches() {
          return batches();
        },
      };
    };
    const names = config.servedModelName.length > 0 ? config.servedModelName : [engine.model.name];
    this.context = furnish(engine, names);
    measureProcess(this.context.metrics.registry);
    this.#house = new ModelHouse(this.context, guests, {
      maxBytes: config.modelMemoryMb === null ? null : config.modelMemoryMb * 2 ** 20,
      furnish: (guest, name) => furnish(guest, [name]),
      guestOf: options.guestOf ?? plainGuest,
    });
    if (config.hubModels) for (const { spec, isComplete } of listModels()) if (isComplete) this.#house.add(spec);
    const house = (): ModelHouse => this.#house;
    this.app = createApp(this.context, { routes, mountedAt: options.mountedAt, clientOf: options.clientOf });
    const batches = (): BatchRoom | null => this.#batches;
    this.#batches = openBatchRoom(config, this.app, shared.keys, logger);
  }

  /**
   * Takes no new requests (503), lets those inside finish, then ends what is left. Resolves to whether all finished in time; `release()`
   * follows when their answers are out.
   */
  async drain(drainSeconds: number): Promise<boolean> {
    await this.#batches?.batches.stop();
    const isEmpty = await raceDeadline(this.context.gate.drain(), drainSeconds * 1000);
    const calls = this.#house.loaded.flatMap((context) => [...context.calls]);
    for (const call of calls) call.cut(new CapacityError("cut_by_shutdown", { value: drainSeconds }));
    this.#watching.abort();
    return isEmpty;
  }

  /** Lets further models and threads go. */
  async release(): Promise<void> {
    await this.context.bodies.close();
    await this.context.tracer?.flush();
    await this.#house.close();
  }
}

function plainGuest(model: string): GuestModel {
  return {
    name: model,
    load: async (onBytes) => {
      const { createEngine } = await import("../engine/client/engine.js");
      return createEngine({ model, onProgress: (_, totalBytes) => onBytes(totalBytes) });
    },
  };
}

export async function raceDeadline(done: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const isDone = await Promise.race([done.then(() => true), late]);
  clearTimeout(timer);
  return isDone;
}
