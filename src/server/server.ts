// The server of the library: `createServer(engine, options).listen()`. Its options are checked at once; what serves (http-service.ts and
// the 330 modules behind it) is loaded by the first call that needs it, since programs with an engine alone never do.

import type { IncomingMessage, ServerResponse } from "node:http";
import { type ServerConfig, serverConfig } from "../config/server-config.js";
import { ConfigError } from "../core/errors.js";
import type { Engine } from "../engine/types.js";
import type { Logger } from "./http/logger.js";
import type { NodeListener } from "./http/node-listener.js";
import type { Route } from "./http/route.js";
import type { HttpService } from "./http-service.js";
import type { GuestModel } from "./models/guest-model.js";
import type { WebService } from "./web-service.js";

/** What `createServer` takes: any of the server's options, a logger, further models. */
export interface ServerOptions extends Partial<ServerConfig> {
  /** Where log lines go; standard error unless given. */
  readonly logger?: Logger;
  /** Further models, loaded when a request first names them. */
  readonly guests?: readonly GuestModel[];
  /** How models of the hub's cache are opened, with `hubModels`. Default: as `createEngine({ model })`. */
  readonly guestOf?: (model: string) => GuestModel;
  /**
   * Further endpoints.
   * @internal
   */
  readonly routes?: readonly Route[];
}

/** What `createHandler` takes: the options of a server but for its socket's, and where in an application it is. */
export interface HandlerOptions extends Omit<ServerOptions, "host" | "port" | "requestTimeoutSeconds"> {
  /** The path that stands before all routes, where the framework leaves it in the request's URL: "/api/llm". Default: none. */
  readonly basePath?: string;
  /** Whose a request is, where no API key says it: clients have equal shares of the engine. Default: one and the same for all. */
  readonly clientOf?: (request: Request) => string;
}

/** Answers a request by one of the server's routes. Made by `createHandler`. */
export interface Handler extends AsyncDisposable {
  /** Resolves to the answer; it rejects only where the server itself fails. */
  (request: Request): Promise<Response>;
  /** The same for Node's own servers, Express and Fastify. */
  readonly node: (request: IncomingMessage, response: ServerResponse) => void;
  /** As the server's: takes no new requests, lets those inside finish, ends what is left. */
  close(drainSeconds?: number): Promise<boolean>;
}

/**
 * All routes of the server as a function of web standards, for Hono, Next.js, Express, Fastify, Bun and Deno. The application that it is
 * part of says which hosts and pages may call it, unless `allowedHost` or `corsOrigin` does.
 */
export function createHandler(engine: Engine, options: HandlerOptions = {}): Handler {
  const { logger, guests, guestOf, routes, basePath = "", clientOf, ...rest } = options;
  const config = serverConfig(rest);
  if (!/^(\/[^/?#]+)*$/.test(basePath))
    throw new ConfigError("invalid_option", {
      param: "basePath",
      value: basePath,
      expected: 'a path such as "/api/llm"',
    });
  let loaded: Promise<Mounted> | null = null;
  const load = (): Promise<Mounted> => {
    loaded ??= Promise.all([import("./web-service.js"), import("./http/node-listener.js")]).then(
      ([{ WebService }, { nodeListener }]) => {
        const given = { guests, guestOf, routes, logger, mountedAt: basePath, clientOf };
        const service = new WebService(engine, config, given);
        return { service, node: nodeListener(service.app) };
      },
    );
    return loaded;
  };
  const close = async (drainSeconds = config.drainSeconds): Promise<boolean> => {
    const { service } = await load();
    const isEmpty = await service.drain(drainSeconds);
    await service.release();
    return isEmpty;
  };
  return Object.assign(async (request: Request) => (await load()).service.app.fetch(request, {}), {
    node: (request: IncomingMessage, response: ServerResponse) =>
      void load().then(
        ({ node }) => node(request, response),
        (error) => response.destroy(error),
      ),
    close,
    [Symbol.asyncDispose]: () => close(0).then(() => undefined),
  });
}

interface Mounted {
  readonly service: WebService;
  readonly node: NodeListener;
}

/** Makes a server for an engine, which stays the caller's to close. Nothing listens yet. */
export function createServer(engine: Engine, options: ServerOptions = {}): PagodaServer {
  const { logger, guests, guestOf, routes, ...rest } = options;
  const config = serverConfig(rest);
  return new PagodaServer(async () => {
    const { HttpService } = await import("./http-service.js");
    return new HttpService(engine, config, { guests, guestOf, routes, logger });
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
