// Who may speak to a server that asks for no key. A web page from elsewhere can make the browser send requests here, and a name that its
// owner points at our address makes them look like our own (DNS rebinding). So the Host must be one that means this machine (beyond
// loopback: any address, since nobody can rebind that), or one the operator names, and an Origin must be the server itself or one that
// CORS allows.

import { isIP } from "node:net";
import type { MiddlewareHandler } from "hono";
import type { ServerConfig } from "../../config/server-config.js";
import type { AppEnv } from "../context.js";
import { ApiError } from "./api-error.js";

type GuardOptions = Pick<ServerConfig, "host" | "allowedHost" | "corsOrigin" | "devOrigins">;

/** null: beyond this machine with keys, which a page does not have, unless the operator names hosts. */
export function originGuard(
  { host, allowedHost, ...pages }: GuardOptions,
  hasKeys: boolean,
): MiddlewareHandler<AppEnv> | null {
  const isLocal = isLoopback(host);
  if (!isLocal && hasKeys && allowedHost.length === 0) return null;
  const isOurs = (name: string): boolean =>
    isLoopback(name) || (!isLocal && isAddress(name)) || allowedHost.includes(name) || allowedHost.includes("*");
  return async (c, next) => {
    const given = c.req.header("host") ?? "";
    const name = hostnameOf(`http://${given}`);
    if (name === null || !isOurs(name)) {
      const where = isLocal ? "on this machine only" : "to its addresses";
      const message = `This server answers ${where}, not as ${JSON.stringify(given)}. Allow a name with --allowed-host.`;
      throw new ApiError("host_not_allowed", message);
    }
    const origin = c.req.header("origin");
    if (origin !== undefined && !isOwn(origin, given) && !isAllowed(origin, pages)) {
      const message = `Pages of ${JSON.stringify(origin)} may not use this server. Allow them with --cors-origin, or those of this machine with --dev-origins.`;
      throw new ApiError("origin_not_allowed", message);
    }
    await next();
  };
}

/** Pages that CORS lets in. */
export function isAllowed(
  origin: string,
  { corsOrigin, devOrigins }: Pick<ServerConfig, "corsOrigin" | "devOrigins">,
): boolean {
  return corsOrigin.includes("*") || corsOrigin.includes(origin) || (devOrigins && isOfThisMachine(origin));
}

/** A page that this machine serves, or an app that has pages of its own: an editor's panel, a desktop app. */
function isOfThisMachine(origin: string): boolean {
  if (/^(vscode-webview|vscode-file|app|tauri|capacitor):\/\//.test(origin)) return true;
  const name = /^https?:\/\//.test(origin) ? hostnameOf(origin) : null;
  return name !== null && isLoopback(name);
}

function isOwn(origin: string, host: string): boolean {
  return origin === `http://${host}` || origin === `https://${host}`;
}

export function isLoopback(name: string): boolean {
  const bare = name.replace(/^\[|\]$/g, "").toLowerCase();
  return bare === "localhost" || bare.endsWith(".localhost") || bare === "::1" || /^127(\.\d{1,3}){3}$/.test(bare);
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, "")) !== 0;
}

function hostnameOf(url: string): string | null {
  try {
    return new URL(url).hostname;
  } catch {
    return null;
  }
}
