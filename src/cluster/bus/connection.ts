// The way to NATS: who may connect how, and what is said when it fails. The client library is loaded here only, when a cluster is joined.
// Prompts travel over this connection: off loopback it must be encrypted and both sides must prove who they are.

import { readFileSync } from "node:fs";
import type { Authenticator, NatsConnection, NodeConnectionOptions } from "@nats-io/transport-node";
import type { ClusterConfig } from "../../config/cluster-config.js";
import { ConfigError } from "../../core/errors.js";
import { optionalPackage } from "../../core/optional-package.js";
import { isLoopback } from "../replica/page-port.js";
import { retry } from "./retry.js";

const RECONNECT_MS = 250;
/** How long a member that starts waits for NATS: machines start in any order. */
const FIRST_WAIT_MS = 30_000;
/** Ways to say who one is, beside a certificate. */
const LOGINS = ["natsCreds", "natsNkey", "natsUser", "natsToken"] as const;
/** A server that does not answer this many pings in a row is gone. */
const PING = { pingInterval: 2000, maxPingOut: 2 };

/** The packages of the NATS client are optional: a program or server outside clusters does without them. */
export function natsClient<T>(load: () => Promise<T>): Promise<T> {
  return optionalPackage(load, "@nats-io/transport-node @nats-io/kv", "A cluster");
}

export async function connectNats(config: ClusterConfig, name: string): Promise<NatsConnection> {
  checkTrust(config);
  const { connect } = await natsClient(() => import("@nats-io/transport-node"));
  const authenticator = await authenticatorOf(config);
  const { ca, certificate } = certificatesOf(config);
  const servers = config.nats.map((url) => url.replace(/^(nats|tls):\/\//, ""));
  const options: NodeConnectionOptions = {
    servers,
    name,
    timeout: 5000,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_MS,
    ...PING,
    ...(authenticator === null ? {} : { authenticator }),
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

/** How this member says who it is; null: not, or by its certificate. */
async function authenticatorOf(config: ClusterConfig): Promise<Authenticator | null> {
  const { natsCreds, natsNkey, natsUser, natsPassword, natsToken } = config;
  const nats = await import("@nats-io/transport-node");
  if (natsCreds !== null) return nats.credsAuthenticator(read("natsCreds", natsCreds));
  if (natsNkey !== null) {
    const seed = /^SU[A-Z2-7]{56}$/m.exec(read("natsNkey", natsNkey).toString())?.[0];
    if (seed === undefined)
      refuse("natsNkey", natsNkey, "a file with the seed of a user's nkey: SU and 56 letters or digits");
    return nats.nkeyAuthenticator(Buffer.from(seed!));
  }
  if (natsUser !== null) return nats.usernamePasswordAuthenticator(natsUser, natsPassword!);
  return natsToken === null ? null : nats.tokenAuthenticator(natsToken);
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
  const { nats, natsTlsCert } = config;
  for (const pair of [
    ["natsTlsCert", "natsTlsKey"],
    ["natsUser", "natsPassword"],
  ] as const) {
    const missing = pair.filter((key) => config[key] === null);
    if (missing.length === 1) refuse(missing[0]!, "missing", "given together with the other");
  }
  const logins = LOGINS.filter((key) => config[key] !== null);
  if (logins.length > 1) refuse(logins[1]!, "given", `left out when ${logins[0]} is given: a member has one login`);
  for (const url of nats) {
    const match = /^(nats|tls):\/\/([^/@]+@)?(\[[^\]]+\]|[^:/@]+)(:\d{1,5})?$/.exec(url);
    if (match === null) refuse("nats", JSON.stringify(url), "nats://HOST:PORT or tls://HOST:PORT");
    const [, , login, host] = match!;
    if (login !== undefined)
      refuse("nats", "a URL with a password", `without one: use ${LOGINS.join(", ")} or a certificate`);
    if (isLoopback(host!)) continue;
    if (!usesTls(config)) refuse("nats", url, "tls://... off loopback (or natsTlsCa given): prompts travel over it");
    if (logins.length === 0 && natsTlsCert === null)
      refuse(
        "natsCreds",
        "missing",
        `given for ${url} (or ${LOGINS.slice(1).join(", ")}, or natsTlsCert): off loopback members prove who they are`,
      );
  }
}

function refuse(param: string, value: string, expected: string): never {
  throw new ConfigError("invalid_option", { param, value, expected });
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
