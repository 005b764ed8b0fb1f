// The service around an engine, behind a socket: listens, serves, drains, ends. The library's way to it is `createServer` (server.ts).

import { createServer as createHttpServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Hono } from "hono";
import type { ServerConfig } from "../config/server-config.js";
import type { Engine } from "../engine/types.js";
import { setThreadClass } from "../threads/thread-class.js";
import type { AppEnv, ServerContext } from "./context.js";
import { unavailable } from "./http/address.js";
import { nodeListener } from "./http/node-listener.js";
import { raceDeadline, WebService, type WebServiceOptions } from "./web-service.js";

const LAST_WORDS_MS = 250;

/** An HTTP server over an engine, which stays the caller's to close. Nothing listens yet. */
export class HttpService {
  readonly context: ServerContext;
  readonly app: Hono<AppEnv>;
  readonly #http: Server;
  readonly #web: WebService;

  constructor(engine: Engine, config: ServerConfig, options: Omit<WebServiceOptions, "mountedAt" | "clientOf"> = {}) {
    this.#web = new WebService(engine, config, options);
    this.context = this.#web.context;
    this.app = this.#web.app;
    this.#http = createHttpServer(
      {
        // A client that sends its request in drops is cut off.
        headersTimeout: config.requestTimeoutSeconds * 1000,
        requestTimeout: config.requestTimeoutSeconds * 1000,
        connectionsCheckingInterval: Math.min(1000, config.requestTimeoutSeconds * 250),
        keepAliveTimeout: 65_000, // longer than the usual proxy's, so that the proxy closes first
        noDelay: true,
      },
      nodeListener(this.app),
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
    const isEmpty = await this.#web.drain(drainSeconds);
    const closed = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    this.#http.closeIdleConnections();
    // Answers and last words may still be on their way out; a stream that follows the steps never ends by itself.
    if (!(await raceDeadline(closed, LAST_WORDS_MS))) {
      this.#http.closeAllConnections();
      await closed;
    }
    await this.#web.release();
    return isEmpty;
  }
}
