// NATS in operator mode, made by hand: an operator's and an account's JWT for the server, and .creds files of users with permissions.

import { nkeys } from "@nats-io/transport-node";

type KeyPair = ReturnType<typeof nkeys.createUser>;

const NO_LIMIT = { subs: -1, data: -1, payload: -1 };
const ACCOUNT_LIMITS = { ...NO_LIMIT, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
const JETSTREAM_LIMITS = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };

export interface NatsPermissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

export class NatsOperator {
  readonly #operator = nkeys.createOperator();
  readonly #account = nkeys.createAccount();
  readonly #system = nkeys.createAccount();

  /** Lines of the server's configuration. */
  config(): string {
    const operator = signed(this.#operator, this.#operator, { type: "operator", version: 2 });
    const account = (pair: KeyPair, limits: object): string => {
      return `${pair.getPublicKey()}: "${signed(this.#operator, pair, { limits, type: "account", version: 2 })}"`;
    };
    return [
      `operator: "${operator}"`,
      `system_account: ${this.#system.getPublicKey()}`,
      "resolver: MEMORY",
      "resolver_preload: {",
      account(this.#account, { ...ACCOUNT_LIMITS, ...JETSTREAM_LIMITS }),
      account(this.#system, ACCOUNT_LIMITS),
      "}",
      "",
    ].join("\n");
  }

  /** The content of a user's .creds file. */
  creds({ publish, subscribe }: NatsPermissions): string {
    const user = nkeys.createUser();
    const claims = { pub: { allow: publish }, sub: { allow: subscribe }, ...NO_LIMIT, type: "user", version: 2 };
    const seed = Buffer.from(user.getSeed()).toString();
    return [
      "-----BEGIN NATS USER JWT-----",
      signed(this.#account, user, claims),
      "------END NATS USER JWT------",
      "",
      "-----BEGIN USER NKEY SEED-----",
      seed,
      "------END USER NKEY SEED------",
      "",
    ].join("\n");
  }
}

function signed(issuer: KeyPair, subject: KeyPair, nats: object): string {
  const sub = subject.getPublicKey();
  const claims = { jti: sub, iat: Math.floor(Date.now() / 1000), iss: issuer.getPublicKey(), name: "test", sub, nats };
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ typ: "JWT", alg: "ed25519-nkey" })}.${part(claims)}`;
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString("base64url")}`;
}
