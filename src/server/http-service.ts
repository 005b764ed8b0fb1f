// The service around an engine: listens, serves, drains, ends. The library's way to it is `createServer` (server.ts).

import { createServer as createHttpServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import { findChatForm } from "../chat/chat-form.js";
import type { ServerConfig } from "../config/server-config.js";
import { packageVersion } from "../config/version.js";
import { CapacityError } from "../core/errors.js";
import { asServed } from "../engine/served-engine.js";
import type { Engine } from "../engine/types.js";
import { setThreadClass } from "../threads/thread-class.js";
import { createApp } from "./app.js";
import type { AppEnv, ServerContext } from "./context.js";
import { Owners } from "./dashboard/owners.js";
import { unavailable } from "./http/address.js";
import { KeyRing } from "./http/auth.js";
import { Gate } from "./http/gate.js";
import { stderrSink } from "./http/log-sink.js";
import { type Logger, stderrLogger } from "./http/logger.js";
import type { Route } from "./http/route.js";
import { SeenFields } from "./http/seen-fields.js";
import { ServerMetrics } from "./metrics/metrics.js";
import { measureProcess } from "./metrics/process-metrics.js";
import type { GuestModel } from "./models/guest-model.js";
import { ModelHouse } from "./models/model-house.js";
import { ResponseStore } from "./openai/response-store.js";

const LAST_WORDS_MS = 250;

/** An HTTP server over an engine, which stays the caller's to close. Nothing listens yet. */
export class HttpService {
  readonly context: ServerContext;
  readonly app: Hono<AppEnv>;
  readonly #http: Server;
  readonly #watching = new AbortController();
  readonly #house: ModelHouse;

  constructor(
    engine: Engine,
    config: ServerConfig,
    guests: readonly GuestModel[] = [],
    routes: readonly Route[] = [],
    logger: Logger = stderrLogger(config.logLevel),
  ) {
    const shared = {
      config,
      gate: new Gate(config),
      owners: new Owners(),
      responses: new ResponseStore(),
      seenFields: new SeenFields(),
      keys: new KeyRing(config.apiKey, config.adminKey),
      log: logger,
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
      };
    };
    const names = config.servedModelName.length > 0 ? config.servedModelName : [engine.model.name];
    this.context = furnish(engine, names);
    measureProcess(this.context.metrics.registry);
    this.#house = new ModelHouse(this.context, guests, {
      maxBytes: config.modelMemoryMb === null ? null : config.modelMemoryMb * 2 ** 20,
      furnish: (guest, name) => furnish(guest, [name]),
    });
    const house = (): ModelHouse => this.#house;
    this.app = createApp(this.context, routes);
    this.#http = createHttpServer(
      {
        // A client that sends its request in drops is cut off.
        headersTimeout: config.requestTimeoutSeconds * 1000,
        requestTimeout: config.requestTimeoutSeconds * 1000,
        connectionsCheckingInterval: Math.min(1000, config.requestTimeoutSeconds * 250),
        keepAliveTimeout: 65_000, // longer than the usual proxy's, so that the proxy closes first
        noDelay: true,
      },
      // What is left of a refused body is read and dropped by Node itself, within the request's timeout; the listener would close the
      // connection after half a second, and a client that still sends would hear of a broken pipe instead of the answer.
      getRequestListener(this.app.fetch, { overrideGlobalObjects: false, autoCleanupIncoming: false }),
    );
  }

  async listen(): Promise<{ host: string; port: number; url: string }> {
    const { host, port } = this.context.config;
    await setThreadClass("interactive");
    return new Promise((resolve, reject) => {
      this.#http.once("error", (error: NodeJS.ErrnoException) => reject(unavailable(host, port, error)));
      this.#http.listen(port, host, () => {
        const { port: bound } = this.#http.address() as AddressInfo;
        const name = host.includes(":") ? `[${host}]` : host;
        resolve({ host, port: bound, url: `http://${name}:${bound}` });
      });
    });
  }

  /** Resolves to whether all requests finished in time. */
  async close(drainSeconds = this.context.config.drainSeconds): Promise<boolean> {
    const isEmpty = await raceDeadline(this.context.gate.drain(), drainSeconds * 1000);
    const calls = this.#house.loaded.flatMap((context) => [...context.calls]);
    for (const call of calls) call.cut(new CapacityError("cut_by_shutdown", { value: drainSeconds }));
    this.#watching.abort();
    const closed = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    this.#http.closeIdleConnections();
    // Answers and last words may still be on their way out; a stream that follows the steps never ends by itself.
    if (!(await raceDeadline(closed, LAST_WORDS_MS))) {
      this.#http.closeAllConnections();
      await closed;
    }
    await this.#house.close();
    return isEmpty;
  }
}

async function raceDeadline(done: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const isDone = await Promise.race([done.then(() => true), late]);
  clearTimeout(timer);
  return isDone;
}
