// What comes over a cluster's NATS made wrong: entries of members, messages whole and in parts, sealed and not. Each is dropped or
// understood; nothing is thrown at the connection, where it would end the process.

import type { NatsConnection } from "@nats-io/transport-node";
import { Mailbox } from "../../src/cluster/bus/mailbox.js";
import { Seal } from "../../src/cluster/bus/seal.js";
import { Subjects } from "../../src/cluster/bus/subjects.js";
import { addWireOutput, PROTOCOL, wordsToText } from "../../src/cluster/bus/wire.js";
import { isToReplica, isToRouter } from "../../src/cluster/bus/wire-check.js";
import { ENTRY, readEntry, readSaid } from "../../src/cluster/membership/entry-check.js";
import { PrefixMap } from "../../src/cluster/router/prefix-map.js";
import { OutputReader, OutputTable } from "../../src/engine/outputs.js";
import { seeded } from "../support/byte-matcher.js";
import { entryOf } from "../support/told-cluster.js";
import { ToldNats } from "../support/told-nats.js";
import { mutateBytes, mutateText, mutateValue, pick, type Random } from "./mutate.js";

const SUBJECTS = new Subjects("fuzz");
const INBOX = SUBJECTS.inbox("me");
const FROM = { from: "you", v: PROTOCOL };
const OUTPUT = {
  ...{
    id: "0",
    at: 0,
    index: 0,
    tokens: [5, 6],
    finishReason: "stop",
    stopToken: 1,
    vector: "AADAPwAAAMA=",
    trace: {},
  },
  logprobs: [
    [5, -0.5, 6, null],
    [6, null],
  ],
  promptLogprobs: [null, [7, -1]],
};
const MESSAGES: readonly object[] = [
  {
    ...{
      type: "add",
      id: "0",
      kind: "generate",
      prompt: [1, 2],
      sampling: { n: 1 },
      priority: 0,
      salt: "",
      leaseMs: 1,
    },
    ...{ constraint: null, resumed: { index: 0, tokens: [1] }, client: "c", peer: "p" },
  },
  { type: "abort", id: "0", index: -1 },
  { type: "open", ids: ["0"], leaseMs: 1 },
  { type: "prefixes" },
  { type: "lend", id: "0", identity: "", prompt: [1], salt: "", firstPage: 0 },
  { type: "lent", id: "0", url: null },
  { type: "offer", identity: "", url: "http://127.0.0.1:1" },
  { type: "outputs", outputs: [OUTPUT, { id: "1", at: 0, error: { code: "x", details: {} } }] },
  { type: "gone", ids: ["0"] },
  { type: "prefixes", epoch: 0, seq: 0, isSnapshot: true, changes: wordsToText(Int32Array.of(1, 2, 3, 0, 2, 3)) },
  { type: "unsupported" },
];
const HEADS = [
  "#you.0 0 1\n",
  "#you.0 0 2\n",
  "#you.0 1 2\n",
  "#you.1 0 1024\n",
  "#you.1 0 0\n",
  "#a b 0 1\n",
  "#",
  "!",
  "\n",
];

export class EntryFuzzer {
  readonly #seals = [null, "secret"].map((secret) => new Seal(secret));
  readonly #callbacks = [null, "secret"].map((secret) => {
    const nats = new ToldNats();
    const mailbox = new Mailbox(nats as unknown as NatsConnection, SUBJECTS, "me", secret);
    mailbox.listen(INBOX, (message) => this.#hear(message));
    return { nats, hear: nats.callbacks.get(INBOX)! };
  });
  readonly #prefixes = new PrefixMap(() => undefined);
  #wrong: string | null = null;

  /** What is wrong with how the mutated entry and message were taken; null when nothing is. */
  try(seed: number): string | null {
    const random = seeded(seed);
    const which = random() < 0.5 ? 0 : 1;
    const seal = this.#seals[which]!;
    const { nats, hear } = this.#callbacks[which]!;
    this.#wrong = null;
    let data = damaged(entryOf("a"), ENTRY, seal, random);
    try {
      const entry = readEntry(seal, data);
      if (entry !== null && (typeof entry.id !== "string" || typeof entry.leaseMs !== "number")) return `entry ${data}`;
      readSaid(seal, data);
      for (let i = 0; i < 3; i++) {
        data = damaged({ ...pick(random, MESSAGES), ...FROM }, INBOX, seal, random);
        if (random() < 0.2) data = Buffer.concat([Buffer.from(pick(random, HEADS)), data]);
        hear(null, { data, subject: INBOX });
        nats.taken();
      }
      return this.#wrong;
    } catch (error) {
      return `${Buffer.from(data).toString()}: ${(error as Error).stack ?? error}`;
    }
  }

  /** As replicas and routers read it. */
  #hear(message: object): void {
    if (isToReplica(message) && message.type === "add" && !message.prompt.every((id) => typeof id === "number"))
      this.#wrong = JSON.stringify(message);
    if (!isToRouter(message)) return;
    if (message.type === "prefixes") {
      this.#prefixes.open("you");
      this.#prefixes.take("you", message);
      this.#prefixes.drop("you");
    } else if (message.type === "outputs") {
      const table = new OutputTable();
      for (const wire of message.outputs) addWireOutput(table, table.open("x", wire.index ?? 0, "x", 0), wire);
      const rows = new OutputReader<string>((callId) => callId);
      const taken = table.take(null);
      if (taken === null) return;
      rows.open(taken);
      while (rows.next());
    }
  }
}

/** The value as bytes with something wrong: in the value, in its text, or in what is around it. */
function damaged(value: object, place: string, seal: Seal, random: Random): Uint8Array {
  let inner: unknown = value;
  for (let i = 0; i < random() * 3; i++) inner = mutateValue(inner, random);
  let text = JSON.stringify(inner) ?? "";
  if (random() < 0.2) text = mutateText(text, random);
  const sealed = seal.close(place, Buffer.from(text));
  return random() < 0.3 ? mutateBytes(sealed, random) : sealed;
}
