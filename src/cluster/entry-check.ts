// The border of the cluster's bucket: an entry has the shape that registration.ts gives, or it replaces nothing that is known of its member.

import type { MemberEntry } from "./registration.js";
import type { Seal } from "./seal.js";
import { type Check, list, maybe, number, object, orNull, shaped, text } from "./wire-check.js";

/** What entries are sealed for; each says whose it is. */
export const ENTRY = "entry";

const one =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value);
const flag: Check = (value) => typeof value === "boolean";
const values =
  (check: Check): Check =>
  (value) =>
    object(value) && Object.values(value as object).every(check);

const known = { id: text, version: text, protocol: number, leaseMs: number };
const callLoad = shaped({ count: number, queued: list(list(number)) });
const COUNTS = [
  ...["tokensPerSecond", "meanCallMs", "running", "waiting", "pagesUsed", "pagesTotal", "pagesCached", "promptTokens"],
  ...[
    "cachedTokens",
    "generatedTokens",
    "requestsFinished",
    "callsFailed",
    "callsRefused",
    "pagesFetched",
    "fetchesFailed",
  ],
];
const replica = shaped({
  ...known,
  kind: one("replica"),
  model: text,
  vocabulary: text,
  role: one("both", "prefill", "decode"),
  facts: shaped({
    maxContext: number,
    poolTokens: orNull(number),
    pageSize: number,
    pageBytes: number,
    identity: text,
  }),
  address: text,
  exchangesPages: flag,
  pageAddress: maybe(orNull(text)),
  startedMs: number,
  state: one("ready", "draining", "restarting"),
  slots: number,
  maxQueued: number,
  load: shaped({
    calls: callLoad,
    callsOf: values(callLoad),
    ...Object.fromEntries(COUNTS.map((name) => [name, number])),
  }),
});
const router = shaped({
  ...known,
  kind: one("router"),
  address: text,
  startedMs: number,
  models: list(text),
  calls: number,
  resumed: number,
  prefilled: number,
  lost: number,
});
/** Enough to name one that speaks another protocol. */
const foreign = shaped({ ...known, kind: one("replica", "router") });

export function readEntry(seal: Seal, data: Uint8Array): MemberEntry | null {
  const entry = parsed(seal, data);
  return replica(entry) || router(entry) ? (entry as MemberEntry) : null;
}

/** What is known of an entry that has not our shape: it may be another version's. */
export function readForeign(
  seal: Seal,
  data: Uint8Array,
  ours: number,
): Pick<MemberEntry, "kind" | "id" | "version" | "protocol"> | null {
  const entry = parsed(seal, data);
  return foreign(entry) && (entry as MemberEntry).protocol !== ours ? (entry as MemberEntry) : null;
}

function parsed(seal: Seal, data: Uint8Array): unknown {
  try {
    const bytes = seal.read(ENTRY, data);
    return bytes === null ? null : JSON.parse(Buffer.from(bytes).toString());
  } catch {
    return null;
  }
}
