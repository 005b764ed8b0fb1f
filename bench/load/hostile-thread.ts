// Hostile clients in a thread of their own: what they send costs them time too, and the good clients' clock must not wait for it.

import { once, setMaxListeners } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { seeded } from "../../test/support/byte-matcher.js";
import { ATTACKS, hostileClient, type Tally } from "./hostile-clients.js";
import { ownAddress } from "./stream-chat.js";

export interface HostileOptions {
  readonly url: string;
  readonly seconds: number;
  readonly count: number;
  readonly seed: number;
  /** Names of attacks; all of them when left out. */
  readonly attacks?: readonly string[];
}

/** Resolves to how their requests ended, once all have. */
export async function hostileThread(options: HostileOptions): Promise<Tally> {
  const [tally] = await once(new Worker(new URL(import.meta.url), { workerData: options }), "message");
  return tally as Tally;
}

async function attack({ url, seconds, count, seed, attacks }: HostileOptions): Promise<Tally> {
  const tally: Tally = new Map();
  const random = seeded(seed);
  const signal = AbortSignal.timeout(seconds * 1000);
  setMaxListeners(0, signal);
  const names = attacks ?? Object.keys(ATTACKS);
  const clients = Array.from({ length: count }, (_, i) =>
    hostileClient({ url, address: ownAddress(2, i) }, names[i % names.length]!, tally, { random, signal }),
  );
  await Promise.all(clients);
  return tally;
}

if (!isMainThread) parentPort!.postMessage(await attack(workerData as HostileOptions));
