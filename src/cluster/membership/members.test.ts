import assert from "node:assert/strict";
import { test } from "node:test";
import { entryOf } from "../../../test/support/told-cluster.js";
import type { Mailbox } from "../bus/mailbox.js";
import { Seal } from "../bus/seal.js";
import { Subjects } from "../bus/subjects.js";
import { PROTOCOL } from "../bus/wire.js";
import { ENTRY, farewellOf } from "./entry-check.js";
import type { Lease } from "./lease.js";
import { Members } from "./members.js";
import type { MemberEntry } from "./registration.js";

type Callback = (error: Error | null, message: { data: Uint8Array; subject: string }) => void;

/** Members who say what they are told to, and one who listens to them. */
async function told(listed: readonly MemberEntry[] = [], seal = new Seal(null)) {
  let callback!: Callback;
  const subscribed: string[] = [];
  const nats = {
    subscribe: (subject: string, options: { callback: Callback }) => {
      subscribed.push(subject);
      callback = options.callback;
      return { unsubscribe: () => void subscribed.pop() };
    },
  };
  const members = new Members({ nats, subjects: new Subjects("test"), seal } as unknown as Mailbox);
  const heard: unknown[] = [];
  const listener = {
    onReplica: ({ id, state }: { id: string; state: string }) => void heard.push([id, state]),
    onLost: (id: string, reason: string) => void heard.push([id, reason]),
  };
  const unfollow = members.follow(listener);
  await members.start({ list: async () => listed } as unknown as Lease);
  const say = (subject: string, text: string | Uint8Array, error: Error | null = null) =>
    callback(error, { subject: `$KV.pagoda_test.${subject}`, data: Buffer.from(text as string) });
  return { members, listener, unfollow, subscribed, say, taken: () => heard.splice(0) };
}

const ROUTER: MemberEntry = {
  ...{ kind: "router", id: "r", version: "1", protocol: PROTOCOL, address: "", startedMs: 0, leaseMs: 60_000 },
  ...{ models: [], calls: 0, resumed: 0, prefilled: 0, lost: 0 },
};

test("replicas are those of the bucket and those who say so, until they leave; routers are known, and nobody's business", async () => {
  const { members, subscribed, say, taken, listener, unfollow } = await told([entryOf("a"), ROUTER]);
  assert.deepEqual(subscribed, ["$KV.pagoda_test.>"]);
  assert.deepEqual(taken(), [["a", "ready"]]);
  say("replica.b", JSON.stringify(entryOf("b")));
  say("replica.a", JSON.stringify(entryOf("a", { state: "draining" })));
  say("router.q", JSON.stringify({ ...ROUTER, id: "q" }));
  assert.deepEqual(taken(), [
    ["b", "ready"],
    ["a", "draining"],
  ]);
  for (const text of [
    "x",
    "null",
    "1",
    '{"id":5,"leaseMs":5,"kind":"replica"}',
    '{"id":"z","leaseMs":"5","kind":"replica"}',
  ])
    say("replica.z", text);
  say("replica.y", JSON.stringify(entryOf("y")), new Error("not allowed"));
  assert.deepEqual(taken(), [], "what is no entry is dropped");
  assert.deepEqual(
    members.replicas().map(({ id, state }) => [id, state]),
    [
      ["a", "draining"],
      ["b", "ready"],
    ],
  );
  assert.deepEqual([members.get("b")?.id, members.get("r"), members.get("z")], ["b", null, null]);
  const late: string[] = [];
  members.follow({ ...listener, onReplica: ({ id }) => void late.push(id) })();
  assert.deepEqual(late, ["a", "b"], "one that comes late is told of all");
  taken();
  for (const who of ["replica.b", "router.r", "replica.nobody"]) say(who, "");
  assert.deepEqual([taken(), members.get("b")], [[["b", "it left the cluster"]], null]);
  unfollow();
  say("replica.a", "");
  say("replica.c", JSON.stringify(entryOf("c")));
  assert.deepEqual([taken(), late, members.replicas().length], [[], ["a", "b"], 1]);
  members.close();
  assert.deepEqual(subscribed, []);
});

test("with a secret only a member can say that it is here or leaves, and what was recorded of it says nothing", async () => {
  const [ours, theirs] = [new Seal("secret"), new Seal("secret")];
  const { members, say, taken } = await told([], theirs);
  const entry = Buffer.from(JSON.stringify(entryOf("a")));
  const first = ours.close(ENTRY, entry);
  say("replica.a", first);
  assert.deepEqual(taken(), [["a", "ready"]]);
  say("replica.a", "");
  say("replica.a", Buffer.from(farewellOf("a")));
  say("replica.a", new Seal("guess").close(ENTRY, farewellOf("a")));
  say("replica.b", ours.close(ENTRY, farewellOf("a")));
  assert.deepEqual([taken(), members.get("a")?.id], [[], "a"], "others cannot make it leave");
  const second = ours.close(ENTRY, entry);
  say("replica.a", second);
  assert.deepEqual(taken(), [["a", "ready"]]);
  say("replica.a", ours.close(ENTRY, farewellOf("a")));
  assert.deepEqual(taken(), [["a", "it left the cluster"]]);
  for (const recorded of [first, second]) say("replica.a", recorded);
  assert.deepEqual([taken(), members.replicas()], [[], []], "put back by who may write there");
});

test("who is silent for a lease is lost; whatever a member says, it lives", async (t) => {
  let nowMs = 7000;
  t.mock.method(performance, "now", () => nowMs);
  const lease = (id: string, leaseMs: number) => entryOf(id, { leaseMs });
  const { members, say, taken } = await told([lease("a", 60_000), lease("b", 500), lease("c", 500), ROUTER]);
  taken();
  nowMs += 500;
  members.noteLife("c");
  members.noteLife("nobody");
  members.expire();
  assert.deepEqual(taken(), [], "each had so long");
  nowMs += 1;
  members.expire();
  assert.deepEqual(taken(), [["b", "it has not been heard for 0.5 s"]]);
  nowMs += 400;
  say("replica.c", JSON.stringify(lease("c", 500)));
  taken();
  nowMs += 500;
  members.expire();
  assert.deepEqual(
    [taken(), members.replicas().map(({ id }) => id)],
    [[], ["a", "c"]],
    "what it said of itself counts, and who is lost is lost once",
  );
  new Members({} as Mailbox).close(); // one that never began
});
