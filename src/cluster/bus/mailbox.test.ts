import assert from "node:assert/strict";
import { test } from "node:test";
import type { NatsConnection } from "@nats-io/transport-node";
import { ToldNats } from "../../../test/support/told-nats.js";
import { until } from "../../../test/support/until.js";
import { Mailbox } from "./mailbox.js";
import { Subjects } from "./subjects.js";
import { PROTOCOL } from "./wire.js";

const SUBJECTS = new Subjects("test");
function mailboxOf(member = "me"): [Mailbox, ToldNats] {
  const nats = new ToldNats();
  return [new Mailbox(nats as unknown as NatsConnection, SUBJECTS, member), nats];
}

test("a message goes to the other's inbox with who says it and in which protocol; nothing while there is no connection", () => {
  const [mailbox, nats] = mailboxOf();
  mailbox.send("you", { type: "x" });
  assert.deepEqual(nats.taken(), [["pagoda.test.to.you", `{"type":"x","from":"me","v":${PROTOCOL}}`]]);
  for (const state of ["closed", "draining"] as const) {
    nats.state = state;
    mailbox.send("you", { type: "x" });
  }
  nats.state = "open";
  mailbox.isConnected = false;
  mailbox.publish("all", { type: "x" });
  assert.deepEqual(nats.taken(), []);
  mailbox.isConnected = true;
  nats.info = undefined;
  const framed = JSON.stringify({ type: "", from: "me", v: PROTOCOL }).length;
  for (const [length, numParts] of [
    [2 ** 20 - 64 - framed, 1],
    [2 ** 20 - 63 - framed, 2],
  ] as const) {
    nats.taken();
    mailbox.publish("all", { type: "x".repeat(length) });
    assert.equal(nats.taken().length, numParts, "a server that has not said takes a megabyte");
  }
});

test("a message that is too large goes in parts and is put together; one whose beginning was lost is dropped", () => {
  const [mailbox, nats] = mailboxOf();
  const heard: unknown[] = [];
  const [other, otherNats] = mailboxOf("you");
  other.listen(SUBJECTS.inbox("you"), (message, subject) => heard.push([message, subject]));
  const hear = (text: string | Uint8Array) =>
    otherNats.callbacks.get(SUBJECTS.inbox("you"))!(null, { data: Buffer.from(text), subject: SUBJECTS.inbox("you") });
  // As much as fits in 200 bytes less a head of 64 goes whole, one more does not.
  const most = 136 - JSON.stringify({ a: "", from: "me", v: PROTOCOL }).length;
  mailbox.send("you", { a: "x".repeat(most) });
  assert.equal(nats.taken().length, 1);
  mailbox.send("you", { a: "x".repeat(most + 1) });
  const [first, second, ...rest] = nats.taken().map(([, text]) => text);
  assert.deepEqual([first!.slice(0, 10), first!.length, second, rest], ["#me.0 0 2\n", 146, "#me.0 1 2\n}", []]);
  mailbox.send("you", { a: "y".repeat(300) });
  const parts = nats.taken().map(([, text]) => text);
  assert.deepEqual(
    parts.map((part) => part.split("\n")[0]),
    ["#me.1 0 3", "#me.1 1 3", "#me.1 2 3"],
  );
  hear(first!);
  hear(second!);
  assert.equal(heard.length, 1);
  hear(second!); // its beginning is gone
  hear(parts[0]!);
  hear(parts[2]!); // one between is missing
  hear(first!); // another message of the same sender: the one before is given up
  hear(parts[1]!);
  hear(second!);
  assert.equal(heard.length, 2);
  for (const part of parts) hear(part);
  assert.deepEqual(heard.at(-1), [{ a: "y".repeat(300), from: "me", v: PROTOCOL }, SUBJECTS.inbox("you")]);
  for (const odd of [
    "#",
    "#me.1\n",
    "#me.x 0 1\n{}",
    "#me.1 0 1025\n{}",
    "{",
    "3",
    "null",
    '{"v":1}',
    '{"from":3,"v":1}',
  ])
    hear(odd);
  assert.equal(heard.length, 3);
  hear(`#me.9 0 1\n{"from":"me","v":${PROTOCOL}}`);
  hear("#me.9 1 1\n"); // it was whole
  for (let part = 0; part < 1024; part++)
    hear(`#me.7 ${part} 1024\n${part === 0 ? `{"from":"me","v":${PROTOCOL}` : part === 1023 ? "}" : " "}`);
  assert.equal(heard.splice(-1).length + heard.length, 5, "as many parts as there may be");
  assert.equal(heard.length, 4);
  for (const part of [parts[0]!, first!, parts[1]!, parts[2]!]) hear(part); // neither of the two that were mixed
  assert.equal(heard.length, 4);
  otherNats.callbacks.get(SUBJECTS.inbox("you"))!(new Error("no"), { data: Buffer.from(parts[0]!), subject: "" });
});

test("who speaks another protocol is told so, now and then; who says that it does not understand is heard of", (t) => {
  let nowMs = 10;
  t.mock.method(performance, "now", () => nowMs);
  const [mailbox, nats] = mailboxOf();
  const unsupported: string[] = [];
  const heard: unknown[] = [];
  mailbox.onUnsupported = (from) => unsupported.push(from);
  mailbox.listen(SUBJECTS.inbox("me"), (message) => heard.push(message));
  mailbox.listen("all", (message) => heard.push(message));
  const hear = (subject: string, message: object) =>
    nats.callbacks.get(subject)!(null, { data: Buffer.from(JSON.stringify({ from: "you", ...message })), subject });
  hear("all", { v: PROTOCOL + 1 });
  assert.deepEqual(nats.taken(), [], "it was not said to this one");
  hear(SUBJECTS.inbox("me"), { v: PROTOCOL + 1 });
  hear(SUBJECTS.inbox("me"), {});
  const told = [["pagoda.test.to.you", `{"type":"unsupported","from":"me","v":${PROTOCOL}}`]];
  assert.deepEqual(nats.taken(), told);
  nowMs += 99;
  hear(SUBJECTS.inbox("me"), {});
  assert.deepEqual(nats.taken(), []);
  nowMs += 1;
  hear(SUBJECTS.inbox("me"), {});
  assert.deepEqual(nats.taken(), told);
  hear(SUBJECTS.inbox("me"), { v: PROTOCOL + 1, type: "unsupported" });
  assert.deepEqual([unsupported, heard], [["you"], []]);
});

test("the connection is watched; closing leaves nothing behind", async () => {
  const [mailbox, nats] = mailboxOf();
  let numReconnected = 0;
  mailbox.onReconnect = () => numReconnected++;
  for (const type of ["disconnect", "staleConnection"]) {
    nats.tell(type);
    await until(() => !mailbox.isConnected, type);
    nats.tell("ping");
    nats.tell("reconnect");
    await until(() => mailbox.isConnected, "it is back");
  }
  assert.equal(numReconnected, 2);
  mailbox.listen("all", () => undefined);
  await mailbox.close();
  assert.deepEqual([nats.unsubscribed, nats.numClosed], [["all"], 0]);
  nats.drainError = new Error("gone");
  await mailbox.close();
  assert.equal(nats.numClosed, 1);
});

test("with a secret only what a member sealed for this place is heard, once, in parts too", () => {
  const place = SUBJECTS.inbox("you");
  const nats = [new ToldNats(), new ToldNats(), new ToldNats()];
  const [me, you, forger] = ["secret", "secret", null].map(
    (secret, i) => new Mailbox(nats[i] as unknown as NatsConnection, SUBJECTS, ["me", "you", "me"][i]!, secret),
  );
  const heard: string[] = [];
  you!.listen(place, ({ from }) => heard.push(from));
  const deliver = (sent: [string, string][]): void => {
    for (const [, text] of sent) nats[1]!.callbacks.get(place)!(null, { data: Buffer.from(text), subject: place });
  };
  me!.send("you", { type: "x" });
  const first = nats[0]!.taken();
  deliver(first);
  deliver(first);
  me!.send("other", { type: "x" });
  deliver(nats[0]!.taken());
  forger!.send("you", { type: "x" });
  deliver(nats[2]!.taken());
  assert.deepEqual(heard, ["me"]);
  me!.send("you", { type: "x".repeat(500) });
  deliver(nats[0]!.taken());
  assert.deepEqual(heard, ["me", "me"]);
});

test("parts of a message that stopped coming are let go", (t) => {
  let nowMs = 0;
  t.mock.method(performance, "now", () => nowMs);
  const [mailbox, nats] = mailboxOf("you");
  const heard: unknown[] = [];
  mailbox.listen(SUBJECTS.inbox("you"), (message) => heard.push(message));
  const hear = (text: string) =>
    nats.callbacks.get(SUBJECTS.inbox("you"))!(null, { data: Buffer.from(text), subject: SUBJECTS.inbox("you") });
  hear(`#a.0 0 2\n{"from":"a",`);
  nowMs = 10_001;
  hear(`#b.0 0 2\n{"from":"b",`);
  hear(`#a.0 1 2\n"v":${PROTOCOL}}`);
  hear(`#b.0 1 2\n"v":${PROTOCOL}}`);
  assert.deepEqual(heard, [{ from: "b", v: PROTOCOL }]);
});

test("whoever names itself as no subject can, or seals with what is no code, is dropped", () => {
  for (const secret of [null, "secret"]) {
    const nats = new ToldNats();
    const mailbox = new Mailbox(nats as unknown as NatsConnection, SUBJECTS, "me", secret);
    const subject = SUBJECTS.inbox("me");
    mailbox.listen(subject, () => assert.fail("it was heard"));
    const hear = nats.callbacks.get(subject)!;
    for (const from of ["", "a b", "a\r\nPUB x 0\r\n", "a.>", "*", "é"])
      hear(null, { data: Buffer.from(JSON.stringify({ from, v: -1 })), subject });
    hear(null, { data: Buffer.from(`!${"é".repeat(43)}x 1\n{}`, "latin1"), subject });
    assert.deepEqual(nats.taken(), []);
  }
});
