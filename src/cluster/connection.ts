// The way to NATS: who may connect how, and what is said when it fails. The client library is loaded here only, when a cluster is joined.
// Prompts travel over this connection: off loopback it must be encrypted and both sides must prove who they are.

import { readFileSync } from "node:fs";
import type { NatsConnection, NodeConnectionOptions } from "@nats-io/transport-node";
import type { ClusterConfig } from "../config/cluster-config.js";
import { ConfigError } from "../core/errors.js";
import { isLoopback } from "./page-port.js";
import { retry } from "./retry.js";

const RECONNECT_MS = 250;
/** How long a member that starts waits for NATS: machines start in any order. */
const FIRST_WAIT_MS = 30_000;
/** A server that does not answer this many pings in a row is gone. */
const PING = { pingInterval: 2000, maxPingOut: 2 };

export async function connectNats(config: ClusterConfig, name: string): Promise<NatsConnection> {
  checkTrust(config);
  const { connect, credsAuthenticator } = await import("@nats-io/transport-node");
  const { natsCreds } = config;
  const { ca, certificate } = certificatesOf(config);
  const servers = config.nats.map((url) => url.replace(/^(nats|tls):\/\//, ""));
  const options: NodeConnectionOptions = {
    servers,
    name,
    timeout: 5000,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_MS,
    ...PING,
    ...(natsCreds === null ? {} : { authenticator: credsAuthenticator(read("natsCreds", natsCreds)) }),
    ...(usesTls(config) ? { tls: { ...(ca === null ? {} : { ca }), ...certificate } } : {}),
  };
  const isRefusal = ({ name, message }: Error): boolean =>
    /authorization|authentication|permissions|certificate|altnames|secure tls/i.test(`${name} ${message}`);
  try {
    return await retry(() => connect(options), FIRST_WAIT_MS, isRefusal);
  } catch (error) {
    throw new ConfigError("nats_unreachable", { value: config.nats.join(", "), reason: (error as Error).message });
  }
}

/** What this member shows of itself, and whom it believes; null: nothing given. */
export function certificatesOf({ natsTlsCa, natsTlsCert, natsTlsKey }: ClusterConfig): {
  readonly ca: string | null;
  readonly certificate: { readonly cert: string; readonly key: string } | null;
} {
  return {
    ca: natsTlsCa === null ? null : read("natsTlsCa", natsTlsCa).toString(),
    certificate:
      natsTlsCert === null || natsTlsKey === null
        ? null
        : { cert: read("natsTlsCert", natsTlsCert).toString(), key: read("natsTlsKey", natsTlsKey).toString() },
  };
}

/** Refuses a way to NATS on which others could read prompts or pretend to be a member. */
export function checkTrust(config: ClusterConfig): void {
  const { nats, natsCreds, natsTlsCert, natsTlsKey } = config;
  const refuse = (param: string, value: string, expected: string): never => {
    throw new ConfigError("invalid_option", { param, value, expected });
  };
  if ((natsTlsCert === null) !== (natsTlsKey === null))
    refuse(natsTlsCert === null ? "natsTlsCert" : "natsTlsKey", "missing", "given together with the other");
  for (const url of nats) {
    const match = /^(nats|tls):\/\/([^/@]+@)?(\[[^\]]+\]|[^:/@]+)(:\d{1,5})?$/.exec(url);
    if (match === null) refuse("nats", JSON.stringify(url), "nats://HOST:PORT or tls://HOST:PORT");
    const [, , login, host] = match!;
    if (login !== undefined) refuse("nats", "a URL with a password", "without one: use natsCreds or a certificate");
    if (isLoopback(host!)) continue;
    if (!usesTls(config)) refuse("nats", url, "tls://... off loopback (or natsTlsCa given): prompts travel over it");
    if (natsCreds === null && natsTlsCert === null)
      refuse(
        "natsCreds",
        "missing",
        `given for ${url} (or natsTlsCert and natsTlsKey): off loopback members prove who they are`,
      );
  }
}

function usesTls({ nats, natsTlsCa, natsTlsCert }: ClusterConfig): boolean {
  return natsTlsCa !== null || natsTlsCert !== null || nats.some((url) => url.startsWith("tls://"));
}

function read(param: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const expected = `a file that can be read (${(error as Error).message})`;
    throw new ConfigError("invalid_option", { param, value: path, expected });
  }
}
