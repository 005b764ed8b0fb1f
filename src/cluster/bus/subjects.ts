// The names under which members of a cluster meet on NATS. docs/guide/cluster.md lists them with the permissions they need.
//
//   pagoda.CLUSTER.to.MEMBER        what one member says to another
//   pagoda.CLUSTER.prefixes.MEMBER  which prefixes a replica came to hold or lost, for all routers
//   $KV.pagoda_CLUSTER.KIND.MEMBER  the entry of a member in the bucket pagoda_CLUSTER, renewed while it lives

import { ConfigError } from "../../core/errors.js";

export class Subjects {
  readonly bucket: string;
  readonly #root: string;

  constructor(cluster: string) {
    if (!/^[A-Za-z0-9-]{1,64}$/.test(cluster)) {
      const expected = "1 to 64 letters, digits or dashes: it is part of NATS subjects";
      throw new ConfigError("invalid_option", { param: "cluster", value: JSON.stringify(cluster), expected });
    }
    this.bucket = `pagoda_${cluster}`;
    this.#root = `pagoda.${cluster}`;
  }

  inbox(member: string): string {
    return `${this.#root}.to.${member}`;
  }

  prefixes(member: string): string {
    return `${this.#root}.prefixes.${member}`;
  }

  /** What a put into the bucket is published as: every renewal is heard at once by those who subscribe to it. */
  get entries(): string {
    return `$KV.${this.bucket}.>`;
  }

  /** The last token: a member's id. */
  static memberOf(subject: string): string {
    return subject.slice(subject.lastIndexOf(".") + 1);
  }
}
