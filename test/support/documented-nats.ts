// The configuration of nats-server that docs/guide/cluster.md gives, for a cluster named "trust".

import { readFileSync } from "node:fs";
import type { NatsPermissions } from "./nats-jwt.js";

export type Kind = "replica" | "router";

export const documentedNats = /```\n(jetstream \{\}\n[\s\S]*?)```/
  .exec(readFileSync("docs/guide/cluster.md", "utf8"))![1]!
  .replaceAll("CLUSTER", "trust")
  .replace("jetstream {}", "");
/** Without TLS: logins are the test's to add. */
export const authorization = documentedNats.slice(documentedNats.indexOf("authorization"));
/** Its users by name and password. */
export const userConfig = authorization.replace(/user: "CN=(\w+)"/g, 'user: "$1", password: "of $1"');

export const userLogin = (kind: Kind) => ({ natsUser: kind, natsPassword: `of ${kind}` });

/** What it allows a replica or a router. */
export function permissionsOf(kind: Kind): NatsPermissions {
  const user = documentedNats.slice(documentedNats.indexOf(`"CN=${kind}"`));
  const list = (what: string): string[] =>
    JSON.parse(new RegExp(`${what}: (\\[[^\\]]*\\])`).exec(user)![1]!) as string[];
  return { publish: list("publish"), subscribe: list("subscribe") };
}
