// The border of the cluster's bucket: an entry has the shape that registration.ts gives, or it replaces nothing that is known of its member.

import type { Seal } from "../bus/seal.js";
import { PROTOCOL } from "../bus/wire.js";
import { type Check, list, maybe, number, object, orNull, shaped, text } from "../bus/wire-check.js";
import type { MemberEntry } from "./registration.js";

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
  adapters: maybe(list(shaped({ name: text, identity: text, byteLength: number, maxRank: number }))),
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
const namesItself = shaped({ ...known, kind: one("replica", "router") });
const foreign = (value: unknown): value is Pick<MemberEntry, "kind" | "id" | "version" | "protocol"> =>
  namesItself(value);
const left = shaped({ left: text });

/** What a member put into the bucket. */
export type Said =
  | { readonly type: "entry"; readonly entry: MemberEntry }
  /** It has not our shape: it may be another version's. */
  | { readonly type: "foreign"; readonly entry: Pick<MemberEntry, "kind" | "id" | "version" | "protocol"> }
  | { readonly type: "left"; readonly id: string };

/** As it is put: each says more than the last, or nothing (an entry that was recorded may be put back by others). */
export function readSaid(seal: Seal, data: Uint8Array): Said | null {
  const said = parsed(seal.open(ENTRY, data));
  if (isEntry(said)) return { type: "entry", entry: said };
  if (left(said)) return { type: "left", id: (said as { left: string }).left };
  return foreign(said) && said.protocol !== PROTOCOL ? { type: "foreign", entry: said } : null;
}

/** As it stays in the bucket. */
export function readEntry(seal: Seal, data: Uint8Array): MemberEntry | null {
  const entry = parsed(seal.read(ENTRY, data));
  return isEntry(entry) ? entry : null;
}

/** The last that a member says where unsealed words count for nothing: NATS's own mark of a deleted entry is one. */
export function farewellOf(id: string): Uint8Array {
  return Buffer.from(JSON.stringify({ left: id }));
}

function isEntry(entry: unknown): entry is MemberEntry {
  return replica(entry) || router(entry);
}

function parsed(bytes: Uint8Array | null): unknown {
  try {
    return bytes === null ? null : JSON.parse(Buffer.from(bytes).toString());
  } catch {
    return null;
  }
}
