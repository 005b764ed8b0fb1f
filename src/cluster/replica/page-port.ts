// Pages between replicas: a connection from one to the other, beside NATS, which is not made for bulk. Who may fetch what is agreed over
// NATS, where members have proved who they are: the holder makes a ticket, good once and for a few seconds, and the other asks for it.
// Off loopback the connection is TLS, and both sides show the certificates they have for NATS; without certificates there is no port.

import { randomBytes } from "node:crypto";
import { createServer, get as httpGet, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer, get as tlsGet } from "node:https";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { Seal } from "../bus/seal.js";

const CODE = "x-pagoda-code";
const TICKET_MS = 5000;
const FETCH_MS = 10_000;

export interface PagePortOptions {
  /** Address to listen on. */
  readonly host: string;
  /** Name or address by which the others reach it; null: the host, or this machine's name. */
  readonly advertise: string | null;
  /** null: only on loopback. */
  readonly tls: { readonly ca: string | null; readonly cert: string; readonly key: string } | null;
  /** Bytes carry a code made with it, and those without are refused. */
  readonly secret?: string | null;
}

export class PagePort {
  readonly #options: PagePortOptions;
  readonly #tickets = new Map<string, () => Promise<Uint8Array>>();
  readonly #server: Server;
  readonly #seal: Seal;
  #url = "";

  private constructor(options: PagePortOptions) {
    this.#options = options;
    this.#seal = new Seal(options.secret ?? null);
    const answer: RequestListener = (request, response) => {
      const ticket = request.url?.slice(1) ?? "";
      const produce = this.#tickets.get(ticket);
      this.#tickets.delete(ticket);
      if (produce === undefined) {
        response.writeHead(404).end();
        return;
      }
      produce().then(
        (bytes) => {
          const code = this.#seal.codeOf(ticket, bytes);
          response.writeHead(200, { "content-length": bytes.length, [CODE]: code }).end(bytes);
        },
        () => response.writeHead(503).end(),
      );
    };
    const { tls } = options;
    this.#server =
      tls === null
        ? createServer(answer)
        : createTlsServer({ ...certificates(tls), requestCert: true, rejectUnauthorized: true }, answer);
    this.#server.unref();
  }

  /** null: pages may not travel here. */
  static async open(options: PagePortOptions): Promise<PagePort | null> {
    if (options.tls === null && !isLoopback(options.host)) return null;
    const port = new PagePort(options);
    await new Promise<void>((resolve, reject) => {
      port.#server.once("error", reject);
      port.#server.listen(0, options.host, resolve);
    });
    const { port: number } = port.#server.address() as AddressInfo;
    const { host, advertise, tls } = options;
    const isEvery = host === "0.0.0.0" || host === "::";
    const name = advertise ?? (isEvery ? hostname() : host);
    port.#url = `${tls === null ? "http" : "https"}://${name.includes(":") ? `[${name}]` : name}:${number}`;
    return port;
  }

  get url(): string {
    return this.#url;
  }

  /** Where one who has the ticket gets what `produce` gives. */
  offer(produce: () => Promise<Uint8Array>): string {
    const ticket = randomBytes(24).toString("base64url");
    this.#tickets.set(ticket, produce);
    setTimeout(() => this.#tickets.delete(ticket), TICKET_MS).unref();
    return `${this.#url}/${ticket}`;
  }

  /** Rejects when it takes too long, is larger than agreed, or is not given. What is cut off has another length than was said. */
  fetch(url: string, maxBytes: number): Promise<Uint8Array> {
    const { tls } = this.#options;
    return new Promise((resolve, reject) => {
      // Members are told by their certificates, not by names: whoever the authority signed for is one.
      const identity = tls === null ? {} : { ...certificates(tls), checkServerIdentity: () => undefined };
      const get = tls === null ? httpGet : tlsGet;
      const signal = AbortSignal.timeout(FETCH_MS);
      const request = get(url, { ...identity, signal, agent: false }, (response) => {
        const length = Number(response.headers["content-length"]);
        if (response.statusCode !== 200 || !(length <= maxBytes)) {
          request.destroy(new Error(`the peer answers ${response.statusCode} with ${length} bytes`));
          return;
        }
        const bytes = new Uint8Array(length);
        let at = 0;
        response.on("data", (chunk: Uint8Array) => {
          bytes.set(chunk, at);
          at += chunk.length;
        });
        response.on("end", () => {
          const code = String(response.headers[CODE] ?? "");
          if (at !== length) reject(new Error(`${at} of ${length} bytes came`));
          else if (!this.#seal.isCodeOf(code, url.slice(url.lastIndexOf("/") + 1), bytes))
            reject(new Error("the pages have not the code of a member"));
          else resolve(bytes);
        });
        response.on("error", reject);
      });
      request.on("error", reject);
    });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

function certificates({ ca, cert, key }: NonNullable<PagePortOptions["tls"]>): {
  ca?: string;
  cert: string;
  key: string;
} {
  return { cert, key, ...(ca === null ? {} : { ca }) };
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
