// A real engine behind a real server on a free port, for tests.

import OpenAI from "openai";
import { pino } from "pino";
import { createEngine, type EngineOptions } from "../../src/engine/client/engine.js";
import type { Engine } from "../../src/engine/types.js";
import type { HttpService } from "../../src/server/http-service.js";
import { createServer, type ServerOptions } from "../../src/server/server.js";

export { until } from "./until.js";

export interface TestServer extends AsyncDisposable {
  readonly engine: Engine & { injectFault(where: "step" | "thread"): void };
  readonly server: HttpService;
  readonly url: string;
  /** OpenAI's own client, as users have it, without retries. */
  readonly client: OpenAI;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

/**
 * Without `model` in the engine's options, the bundled one. One thread: other tests want the other cores, and the bits are the same.
 * A seed: an answer without one of its own would end early once in a while, by chance.
 */
export async function startServer(
  engineOptions: EngineOptions = {},
  serverOptions: ServerOptions = {},
): Promise<TestServer> {
  const engine = (await createEngine({ threads: 1, seed: 1, ...engineOptions })) as TestServer["engine"];
  const options = { port: 0, logger: pino({ level: "silent" }), ...serverOptions };
  const server = await createServer(engine, options).service();
  const { url } = await server.listen();
  const apiKey = serverOptions.apiKey?.[0] ?? "none";
  return {
    engine,
    server,
    url,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }),
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}`, ...headers },
        body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
      } as RequestInit),
    [Symbol.asyncDispose]: async () => {
      await server.close(0);
      await engine.close();
    },
  };
}
