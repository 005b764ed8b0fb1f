// The options of a member of a cluster: where NATS is, how to be let in, how long silence is forgiven.

import { type OptionTable, resolveOptions } from "./options.js";

export interface ClusterConfig {
  readonly nats: readonly string[];
  readonly cluster: string;
  readonly natsCreds: string | null;
  readonly natsTlsCa: string | null;
  readonly natsTlsCert: string | null;
  readonly natsTlsKey: string | null;
  readonly leaseSeconds: number;
  readonly pageTransfers: boolean;
  readonly advertise: string | null;
}

export const CLUSTER_OPTIONS = {
  nats: {
    type: "list",
    default: [],
    help: "NATS servers of the cluster, nats://HOST:PORT or tls://HOST:PORT; off loopback they need TLS and credentials",
  },
  cluster: { type: "string", default: "pagoda", help: "the cluster's name: letters, digits, dashes" },
  natsCreds: { type: "string", default: null, defaultText: "none", help: "credentials file for NATS (a .creds file)" },
  natsTlsCa: {
    type: "string",
    default: null,
    defaultText: "the system's",
    help: "certificate authority of the NATS servers, a PEM file",
  },
  natsTlsCert: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "certificate of this member for NATS, a PEM file",
  },
  natsTlsKey: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "private key of that certificate, a PEM file",
  },
  leaseSeconds: {
    type: "number",
    min: 0.3,
    max: 600,
    default: 3,
    help: "silence after which a member counts as dead; it is heard three times in it",
  },
  pageTransfers: {
    type: "boolean",
    default: true,
    help: "exchange cached pages with other replicas, over connections of their own; off loopback they need natsTlsCert",
  },
  advertise: {
    type: "string",
    default: null,
    defaultText: "the host it listens on, or the machine's name",
    help: "name or address under which other replicas reach this one",
  },
} as const satisfies OptionTable & Record<keyof ClusterConfig, unknown>;

export function clusterConfig(...layers: readonly Readonly<Record<string, unknown>>[]): ClusterConfig {
  return resolveOptions<ClusterConfig>(CLUSTER_OPTIONS, ...layers);
}
