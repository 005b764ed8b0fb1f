// The server of the library: `createServer(engine, options).listen()`. Its options are checked at once; what serves (http-service.ts and
// the 330 modules behind it) is loaded by the first call that needs it, since programs with an engine alone never do.

import { type ServerConfig, serverConfig } from "../config/server-config.js";
import type { Engine } from "../engine/types.js";
import type { Logger } from "./http/logger.js";
import type { Route } from "./http/route.js";
import type { HttpService } from "./http-service.js";
import type { GuestModel } from "./models/guest-model.js";

/** What `createServer` takes: any of the server's options, a logger, further models. */
export interface ServerOptions extends Partial<ServerConfig> {
  /** Where log lines go; standard error unless given. */
  readonly logger?: Logger;
  /** Further models, loaded when a request first names them. */
  readonly guests?: readonly GuestModel[];
  /**
   * Further endpoints.
   * @internal
   */
  readonly routes?: readonly Route[];
}

/** Makes a server for an engine, which stays the caller's to close. Nothing listens yet. */
export function createServer(engine: Engine, options: ServerOptions = {}): PagodaServer {
  const { logger, guests, routes, ...rest } = options;
  const config = serverConfig(rest);
  return new PagodaServer(async () => {
    const { HttpService } = await import("./http-service.js");
    return new HttpService(engine, config, guests, routes, logger);
  });
}

/** An HTTP server over an engine: OpenAI's, Anthropic's and Ollama's APIs, metrics and the dashboard. Made by `createServer`. */
export class PagodaServer {
  readonly #load: () => Promise<HttpService>;
  #service: Promise<HttpService> | null = null;

  /** @internal */
  constructor(load: () => Promise<HttpService>) {
    this.#load = load;
  }

  /**
   * What serves.
   * @internal
   */
  service(): Promise<HttpService> {
    this.#service ??= this.#load();
    return this.#service;
  }

  /** Resolves to the address once it listens. */
  async listen(): Promise<{ host: string; port: number; url: string }> {
    return (await this.service()).listen();
  }

  /**
   * Takes no new requests (503), lets those inside finish for `drainSeconds`, then ends what is left and stops listening.
   * Resolves to whether all finished in time.
   */
  async close(drainSeconds?: number): Promise<boolean> {
    return (await this.service()).close(drainSeconds);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close(0).then(() => undefined);
  }
}
