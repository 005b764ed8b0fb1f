// The address that a server listens on, and what is said when it cannot be had.

import { createServer } from "node:net";
import { ConfigError } from "../../core/errors.js";

/** Listens there for a moment: who cannot serve is told before a model is loaded. */
export function checkAddress(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error) => reject(unavailable(host, port, error)));
    probe.listen(port, host, () => probe.close(() => resolve()));
  });
}

/** What people can do something about, in one line. */
export function unavailable(host: string, port: number, error: NodeJS.ErrnoException): Error {
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: "something listens there already",
    EADDRNOTAVAIL: "this machine does not have that address",
    ENOTFOUND: "there is no host of that name",
    EACCES: "it needs privileges that this user does not have",
  };
  const reason = reasons[error.code ?? ""] ?? error.message;
  return new ConfigError("address_unavailable", { value: `${host}:${port}`, reason });
}
