// The options of a member of a cluster: where NATS is, how to be let in, how long silence is forgiven.

import { type OptionTable, resolveOptions } from "./options.js";

export type Role = "both" | "prefill" | "decode";

export interface ClusterConfig {
  readonly nats: readonly string[];
  readonly cluster: string;
  readonly natsCreds: string | null;
  readonly natsNkey: string | null;
  readonly natsUser: string | null;
  readonly natsPassword: string | null;
  readonly natsToken: string | null;
  readonly clusterSecret: string | null;
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
  natsCreds: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "credentials file for NATS: a .creds file, which has a JWT and its seed",
  },
  natsNkey: { type: "string", default: null, defaultText: "none", help: "file with the seed of an nkey for NATS" },
  natsUser: { type: "string", default: null, defaultText: "none", help: "user name for NATS, with natsPassword" },
  natsPassword: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "its password; better in the environment than on a command line, which others can read",
  },
  natsToken: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "token for NATS; better in the environment too",
  },
  clusterSecret: {
    type: "string",
    default: null,
    defaultText: "none: members are identified by their NATS logins alone",
    help: "secret that all members of the cluster share; each seals what it says and the pages it lends with it, and drops what is not sealed; better in the environment than on a command line",
  },
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

/** Of replicas alone. */
export const REPLICA_OPTIONS = {
  role: {
    type: "choice",
    choices: ["both", "prefill", "decode"],
    default: "both",
    help: "what routers send here: whole requests; long prompts to compute for others (prefill); requests whose long prompts others compute (decode)",
  },
} as const satisfies OptionTable;

/** Of routers alone. */
export const ROUTER_OPTIONS = {
  patienceSeconds: {
    type: "number",
    min: 0,
    max: 3600,
    default: 10,
    help: "time a request waits for a replica when none can take it; 503 after it",
  },
  prefillTokens: {
    type: "integer",
    min: 1,
    default: 512,
    help: "prompt tokens that are nowhere to be fetched from, from which on a prefill replica computes them first, if there is one",
  },
} as const satisfies OptionTable;

export function clusterConfig(...layers: readonly Readonly<Record<string, unknown>>[]): ClusterConfig {
  return resolveOptions<ClusterConfig>(CLUSTER_OPTIONS, ...layers);
}
