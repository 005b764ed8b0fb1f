// A port of this machine for a server that must be told one, or that comes back to the one it had. It lies below those that the system
// gives to whoever names none: while the server is away, no other process is given it by chance.

import { once } from "node:events";
import { createServer } from "node:net";

const FIRST = 20_000;
const COUNT = 12_000;
let next = (process.pid * 61) % COUNT; // processes that look at the same time begin apart

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < COUNT; tries++) {
    const port = FIRST + next;
    next = (next + 1) % COUNT;
    const probe = createServer().listen(port, "127.0.0.1");
    try {
      await once(probe, "listening");
    } catch {
      continue; // somebody is there
    }
    probe.close();
    await once(probe, "close");
    return port;
  }
  throw new Error("no port is free");
}
