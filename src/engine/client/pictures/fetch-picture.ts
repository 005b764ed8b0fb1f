// Pictures that a request names instead of bringing them: from hosts and a folder that the operator allowed, and from nowhere else. A URL is read by
// one parser; the name is resolved once, every address it has must be public, and the connection goes to the address that was looked at. Redirects
// are not followed. What went wrong inside is not told.

import { lookup } from "node:dns/promises";
import { constants, open, realpath } from "node:fs/promises";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { errorFor } from "../../../core/errors.js";
import { isPublicAddress } from "./public-address.js";

export interface FetcherOptions {
  readonly domains: readonly string[];
  readonly path: string | null;
  readonly maxBytes: number;
  /** Of the whole of one picture. */
  readonly maxMs: number;
}

interface Target {
  readonly url: URL;
  readonly address: string;
}

export class PictureFetcher {
  readonly #options: FetcherOptions;
  readonly #resolve: (host: string) => Promise<readonly string[]>;

  /** `resolve`: the addresses of a name. */
  constructor(options: FetcherOptions, resolve = addressesOf) {
    this.#options = options;
    this.#resolve = resolve;
  }

  /** The bytes of a picture at an http:, https: or file: URL. */
  async fetch(text: string, signal?: AbortSignal): Promise<Uint8Array> {
    const url = URL.canParse(text) ? new URL(text) : null;
    if (url === null) throw notAllowed("it is no URL");
    if (url.protocol === "file:") return this.#readFile(url);
    if (url.protocol !== "http:" && url.protocol !== "https:")
      throw notAllowed("only data: and http(s): URLs are read");
    const ends = AbortSignal.timeout(this.#options.maxMs);
    const stop = signal === undefined ? ends : AbortSignal.any([ends, signal]);
    try {
      return await this.#get(await this.#target(url), stop);
    } catch (error) {
      if (signal?.aborted) throw errorFor("aborted");
      if (ends.aborted) throw errorFor("image_too_slow", { limit: this.#options.maxMs / 1000 });
      throw error;
    }
  }

  async #target(url: URL): Promise<Target> {
    if (url.username !== "" || url.password !== "") throw notAllowed("its URL has a user name");
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const rule = this.#options.domains.find((domain) => isOf(url, host, domain));
    if (rule === undefined) throw notAllowed("its host is not among the allowed media domains");
    // An address that the operator wrote down may be a private one.
    if (isIP(host) !== 0) return { url, address: host };
    const addresses = await this.#resolve(host).catch(() => []);
    if (addresses.length === 0) throw notFetched("its host is not known");
    if (!addresses.every(isPublicAddress)) throw notAllowed("its host is not in the public network");
    return { url, address: addresses[0]! };
  }

  #get({ url, address }: Target, signal: AbortSignal): Promise<Uint8Array> {
    const { maxBytes } = this.#options;
    return new Promise((resolve, reject) => {
      const send = url.protocol === "https:" ? requestHttps : requestHttp;
      const asked = send(
        url,
        {
          signal,
          agent: false,
          headers: { accept: "image/*", "accept-encoding": "identity" },
          // The address that was looked at, whatever the name means by now.
          lookup: (_host, options, answer) => {
            const family = isIP(address);
            if (options.all === true) (answer as unknown as AnswerAll)(null, [{ address, family }]);
            else answer(null, address, family);
          },
        },
        (response) => {
          const { statusCode = 0 } = response;
          const fail = (error: Error): void => {
            asked.destroy();
            reject(error);
          };
          if (statusCode >= 300 && statusCode < 400) return fail(notFetched("its host redirects elsewhere"));
          if (statusCode !== 200) return fail(notFetched(`its host answers ${statusCode}`));
          const parts: Buffer[] = [];
          let length = 0;
          response.on("data", (part: Buffer) => {
            length += part.length;
            if (length > maxBytes) fail(errorFor("image_too_large", { value: length, what: "bytes", limit: maxBytes }));
            else parts.push(part);
          });
          response.on("end", () => resolve(Buffer.concat(parts)));
          response.on("error", () => reject(notFetched("the connection was lost")));
        },
      );
      asked.on("error", () => reject(notFetched("its host cannot be reached")));
      asked.end();
    });
  }

  /** A plain file in the allowed folder, links looked through. */
  async #readFile(url: URL): Promise<Uint8Array> {
    const { path, maxBytes } = this.#options;
    if (path === null) throw notAllowed("no folder of pictures is allowed");
    const outside = notAllowed("it is not in the allowed folder");
    if (url.host !== "" || /%2f|%5c/i.test(url.pathname)) throw outside;
    const file = await realpath(fileURLToPath(url)).catch(() => null);
    const folder = await realpath(resolve(path)).catch(() => null);
    if (file === null || folder === null || !file.startsWith(folder + sep)) throw outside;
    // A pipe without a writer would wait for one, and hold a thread of the file system meanwhile.
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => {
      throw outside;
    });
    try {
      const { size } = await handle.stat().then((stat) => (stat.isFile() ? stat : Promise.reject(outside)));
      if (size > maxBytes) throw errorFor("image_too_large", { value: size, what: "bytes", limit: maxBytes });
      return await handle.readFile();
    } finally {
      await handle.close();
    }
  }
}

type AnswerAll = (error: null, addresses: readonly { address: string; family: number }[]) => void;

async function addressesOf(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** NAME, .SUFFIX or an address; without a port the protocol's own. */
function isOf(url: URL, host: string, domain: string): boolean {
  const [, name = "", port = ""] = /^(.*?)(?::(\d+))?$/.exec(
    domain.includes("]") || isIP(domain) !== 6 ? domain : `[${domain}]`,
  )!;
  const bare = name.replace(/^\[|\]$/g, "").toLowerCase();
  if (url.port !== port) return false;
  return bare.startsWith(".") ? host.endsWith(bare) && isIP(host) === 0 : host === bare;
}

function notAllowed(reason: string): Error {
  return errorFor("image_not_allowed", { reason });
}

function notFetched(reason: string): Error {
  return errorFor("image_not_fetched", { reason });
}
