// A hub on 127.0.0.1 for tests: the calls that a pull makes, over files in memory, with faults on demand.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface HubServer {
  readonly url: string;
  readonly commit: string;
  /** Method, path and range of each request so far. */
  readonly requests: string[];
  /** The one repository that there is. */
  readonly repo: string;
  /** Its files; change them to change the repository. */
  readonly files: Map<string, Buffer>;
  readonly faults: {
    /** Ends the connection after this many bytes of content, that many times. */
    breakAfter?: { bytes: number; times: number };
    /** Sends other bytes than the hash is of. */
    corrupt?: boolean;
    ignoreRange?: boolean;
    /** Answers 401 without this token. */
    token?: string;
    /** Answers every call with this status. */
    status?: number;
    /** In place of the real tree. */
    tree?: unknown;
  };
  close(): Promise<void>;
}

export async function startHub(files: Record<string, string | Buffer>, repo = "org/model"): Promise<HubServer> {
  const hub: HubServer = {
    repo,
    url: "",
    commit: "0123456789abcdef0123456789abcdef01234567",
    requests: [],
    files: new Map(Object.entries(files).map(([path, content]) => [path, Buffer.from(content as Buffer)])),
    faults: {},
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  const server = createServer((request, response) => answer(hub, request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  (hub as { url: string }).url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return hub;
}

const isLfs = (path: string) => /\.(safetensors|gguf)$/.test(path);

function etagOf(path: string, content: Buffer): string {
  if (isLfs(path)) return createHash("sha256").update(content).digest("hex");
  return createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
}

function answer(hub: HubServer, request: IncomingMessage, response: ServerResponse) {
  const url = new URL(request.url!, "http://hub");
  const { range, authorization } = request.headers;
  hub.requests.push(`${request.method} ${url.pathname}${range === undefined ? "" : ` ${range}`}`);
  const { faults } = hub;
  const refuse = (status: number, message: string) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: message }));
  };
  if (faults.status !== undefined) return refuse(faults.status, "as asked");
  if (faults.token !== undefined && authorization !== `Bearer ${faults.token}`) return refuse(401, "no access");
  const json = (body: unknown) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };
  const api = `/api/models/${hub.repo}/`;
  if (url.pathname.startsWith(`${api}revision/`)) {
    const revision = url.pathname.slice(`${api}revision/`.length);
    if (revision !== "main" && revision !== hub.commit) return refuse(404, "Revision not found");
    return json({ _id: "1", id: hub.repo, sha: hub.commit, private: false, lastModified: "2026-01-01T00:00:00Z" });
  }
  if (url.pathname === `${api}tree/${hub.commit}`) {
    const tree = [...hub.files].map(([path, content]) => ({
      type: "file",
      path,
      size: content.length,
      oid: etagOf("x", content),
      ...(isLfs(path) ? { lfs: { oid: etagOf(path, content), size: content.length, pointerSize: 130 } } : {}),
    }));
    return json(faults.tree ?? [{ type: "directory", path: "original", size: 0, oid: "0".repeat(40) }, ...tree]);
  }
  const prefix = `/${hub.repo}/resolve/${hub.commit}/`;
  const path = url.pathname.slice(prefix.length);
  const content = url.pathname.startsWith(prefix) ? hub.files.get(decodeURIComponent(path)) : undefined;
  if (content === undefined) return refuse(404, "Repository not found");
  send(hub, response, content, range, etagOf(path, content));
}

function send(
  hub: HubServer,
  response: ServerResponse,
  content: Buffer,
  range: string | undefined,
  etag: string,
): void {
  const { faults } = hub;
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? "") ?? [];
  const isProbe = range === "bytes=0-0";
  const isRange = first !== undefined && (isProbe || !faults.ignoreRange);
  const from = isRange ? Number(first) : 0;
  const to = isRange ? Math.min(Number(last) + 1, content.length) : content.length;
  const part = Buffer.from(content.subarray(from, to));
  if (faults.corrupt && part.length > 1) part[0]! ^= 255;
  response.writeHead(isRange ? 206 : 200, {
    "content-length": part.length,
    etag: `"${etag}"`,
    ...(isRange ? { "content-range": `bytes ${from}-${to - 1}/${content.length}` } : {}),
  });
  const { breakAfter } = faults;
  if (breakAfter !== undefined && breakAfter.times > 0 && part.length > breakAfter.bytes) {
    breakAfter.times--;
    response.write(part.subarray(0, breakAfter.bytes), () => setTimeout(() => response.destroy(), 20));
    return;
  }
  response.end(part);
}
