import assert from "node:assert/strict";
import { test } from "node:test";
import { addOf, entryOf, LEASE_MS, ToldCluster } from "../../../test/support/told-cluster.js";
import { until } from "../../../test/support/until.js";
import { PROTOCOL, type WireOutput, wordsToText } from "../bus/wire.js";
import { RoutedCall } from "./routed-call.js";
import type { Attempt, AttemptOwner, Loss } from "./router.js";

/** Writes down what it hears of its attempts. */
class Owner implements AttemptOwner {
  heard: unknown[] = [];

  onOutput({ id }: Attempt, { tokens }: WireOutput): void {
    this.heard.push(["output", id, tokens]);
  }

  onLost({ id }: Attempt, { reason, kind }: Loss): void {
    this.heard.push(["lost", id, kind, reason]);
  }

  onFlush(): void {
    this.heard.push("flush");
  }

  taken(): unknown[] {
    const { heard } = this;
    this.heard = [];
    return heard;
  }
}

const REQUEST = new RoutedCall(addOf("call")).requests(-1)[0]!;
const start = (
  { router }: ToldCluster,
  replica: string,
  owner: AttemptOwner,
  { heldPages = 0, priority = 0, keys = [] as number[] } = {},
) => router.start(router.candidate(replica, heldPages, priority), { ...REQUEST, priority }, keys, owner);

test("replicas come, change and go; one of another protocol is named once and sent nothing", () => {
  using cluster = new ToldCluster();
  const { router, members, line } = cluster;
  const events: unknown[] = [];
  let numChanges = 0;
  router.onMember = (event) => events.push(Object.values(event));
  const unfollow = router.follow({ onChange: () => numChanges++ });
  members.onReplica(entryOf("a"));
  assert.deepEqual(line.taken(), [["a", { type: "prefixes" }]], "all that it holds is asked for");
  const listed = router.replicas();
  assert.equal(router.replicas(), listed, "the same list");
  members.onReplica(entryOf("a", { state: "draining" }));
  assert.deepEqual(
    router.replicas().map(({ id, state }) => [id, state]),
    [["a", "draining"]],
  );
  members.onReplica(entryOf("old", { protocol: PROTOCOL + 1, version: "9" }));
  members.onReplica(entryOf("old", { protocol: PROTOCOL + 1, version: "9" }));
  assert.equal(numChanges, 2);
  members.onLost("old", "it left");
  members.onReplica(entryOf("old", { protocol: PROTOCOL + 1, version: "9" }));
  members.onLost("a", "it left");
  members.onLost("a", "it left");
  unfollow();
  members.onReplica(entryOf("b"));
  assert.deepEqual([numChanges, router.numLost, router.replicas().length], [3, 1, 1]);
  const refused = ["old", false, `it is of version 9 and speaks protocol ${PROTOCOL + 1}, this router ${PROTOCOL}`];
  assert.deepEqual(events, [["a", true, null], refused, refused, ["a", false, "it left"], ["b", true, null]]);
  assert.deepEqual(line.taken(), [["b", { type: "prefixes" }]]);
});

test("a request goes out as it is, with its name and lease; what a replica has to do is counted until it begins", () => {
  using cluster = new ToldCluster();
  const { router, members, line } = cluster;
  members.onReplica(entryOf("a", { slots: 3, maxQueued: 5, load: { tokensPerSecond: 70, meanCallMs: 90 } }));
  line.taken();
  const owner = new Owner();
  const first = start(cluster, "a", owner, { heldPages: 1 });
  assert.deepEqual(line.taken(), [["a", { ...REQUEST, id: "0", leaseMs: LEASE_MS }]]);
  assert.deepEqual([first.newTokens, first.startMs, first.hasBegun, first.replica], [5, 1000, false, "a"]);
  const fetching = { ...router.candidate("a", 1, 3), fetch: { peer: "b", tokens: 2, ms: 1 } };
  const second = router.start(fetching, { ...REQUEST, priority: 3 }, [], owner);
  assert.deepEqual(line.taken(), [["a", { ...REQUEST, priority: 3, id: "1", leaseMs: LEASE_MS, peer: "b" }]]);
  assert.equal(second.newTokens, 3);
  assert.equal(
    router.start({ ...fetching, heldTokens: 8 }, REQUEST, [], owner).newTokens,
    1,
    "the last token at least",
  );
  line.taken();
  const seen = (priority: number) => {
    const { calls, backlogTokens } = router.candidate("a", 2, priority);
    return [calls, backlogTokens];
  };
  assert.deepEqual(
    [seen(0), seen(3), seen(-1)],
    [
      [2, 6],
      [3, 9],
      [0, 0],
    ],
    "those that are worse are in nobody's way",
  );
  assert.equal(router.numCalls, 3);
  assert.deepEqual(router.candidate("a", 2, 3), {
    ...{
      id: "a",
      heldTokens: 8,
      calls: 3,
      slots: 3,
      maxQueued: 5,
      backlogTokens: 9,
      tokensPerSecond: 70,
      meanCallMs: 90,
    },
  });
  assert.equal(router.firstTokenMs("a"), null);
  cluster.nowMs = 1040;
  line.hear("a", { type: "outputs", outputs: [{ id: "0", at: 0, tokens: [7] }] });
  cluster.nowMs = 1090;
  line.hear("a", {
    type: "outputs",
    outputs: [
      { id: "x", at: 0 },
      { id: "0", at: 1, tokens: [8] },
      { id: "1", at: 0, tokens: [9] },
    ],
  });
  assert.deepEqual(owner.taken(), [["output", "0", [7]], "flush", ["output", "0", [8]], ["output", "1", [9]], "flush"]);
  assert.deepEqual(
    [seen(0), seen(3)],
    [
      [3, 1],
      [3, 1],
    ],
  );
  assert.deepEqual(router.firstTokenMs("a"), { p50: 40, p99: 90 });
  assert.equal(router.firstTokenMs("b"), null);
  router.forget(first);
  router.forget(first);
  assert.deepEqual([router.numCalls, seen(3)], [2, [2, 1]]);
  router.abort(second, 1);
  assert.deepEqual(line.taken(), [["a", { type: "abort", id: "1", index: 1 }]]);
  assert.deepEqual(cluster.alive, ["a", "a"], "whatever it says, it lives");
  router.close();
  assert.ok(cluster.isClosed);
});

test("what others have at a replica counts beside what this router has there", () => {
  using cluster = new ToldCluster();
  const { router, members } = cluster;
  const calls = {
    count: 7,
    queued: [
      [0, 3, 100],
      [5, 2, 50],
    ],
  } as const;
  const callsOf = { me: { count: 2, queued: [[0, 1, 30]] }, other: { count: 5, queued: [] } } as const;
  members.onReplica(entryOf("a", { load: { calls, callsOf } }));
  const seen = (priority: number) => {
    const { calls, backlogTokens } = router.candidate("a", 0, priority);
    return [calls, backlogTokens];
  };
  assert.deepEqual(
    [seen(9), seen(0)],
    [
      [5, 120],
      [3, 70],
    ],
  );
  start(cluster, "a", new Owner());
  assert.deepEqual(
    [seen(9), seen(0)],
    [
      [6, 129],
      [4, 79],
    ],
  );
  members.onReplica(entryOf("a", { load: { calls: { count: 1, queued: [] } } }));
  assert.deepEqual(seen(0), [2, 9], "this router knows its own better");
  router.forget(start(cluster, "a", new Owner()));
  assert.deepEqual(seen(0), [2, 9], "one that is forgotten is not computed");
});

test("what a replica says of itself is a loss, what it says of the request is not", () => {
  using cluster = new ToldCluster();
  const { members, line, router } = cluster;
  members.onReplica(entryOf("a"));
  const owner = new Owner();
  for (let i = 0; i < 7; i++) start(cluster, "a", owner);
  const failed = (id: string, code: string) => ({ id, at: 0, error: { code, details: { reason: "x." } } });
  line.hear("a", {
    type: "outputs",
    outputs: [failed("0", "draining"), failed("1", "queue_full"), failed("2", "engine_dead")],
  });
  line.hear("a", {
    type: "outputs",
    outputs: [failed("3", "step_failed"), failed("4", "no_token_left"), failed("5", "newer")],
  });
  line.hear("a", { type: "gone", ids: ["x", "6"] });
  const heard = owner.taken() as unknown[][];
  assert.deepEqual(
    heard.map((event) => (Array.isArray(event) ? event.slice(0, 3) : event)),
    [
      ["lost", "0", "refused"],
      ["lost", "1", "refused"],
      ["lost", "2", "fault"],
      "flush",
      ["lost", "3", "fault"],
      ["output", "4", undefined],
      ["lost", "5", "fault"],
      "flush",
      ["lost", "6", "message"],
      "flush",
    ],
  );
  assert.deepEqual(
    [heard[2]![3], heard[6]![3], heard[8]![3]],
    [
      "The engine has stopped: x. Create a new engine.",
      "it failed with newer, which this version does not know",
      "it knows nothing of the request",
    ],
  );
  assert.equal(router.numCalls, 1, "the one whose request was at fault is its owner's to end");
  start(cluster, "a", owner);
  line.onUnsupported("a");
  line.onUnsupported("b");
  assert.deepEqual(owner.taken(), [
    ["lost", "4", "fault", "it speaks another protocol"],
    ["lost", "7", "fault", "it speaks another protocol"],
    "flush",
  ]);
  line.hear("b", { type: "gone", ids: ["0"] }); // nobody that is known
  line.hear("a", { type: "gone" }); // nothing that is understood
  assert.deepEqual(owner.taken(), []);
});

test("with a replica that is lost go its requests and what it held", () => {
  using cluster = new ToldCluster();
  const { members, line, router } = cluster;
  for (const id of ["a", "b"]) members.onReplica(entryOf(id));
  const holds = (seq: number, keys: number[]) => ({
    ...{ type: "prefixes", epoch: 1, seq, isSnapshot: seq === 0 },
    changes: wordsToText(Int32Array.from(keys.flatMap((key) => [1, key, 0]))),
  });
  line.hear("a", holds(0, [1, 2])); // as an answer
  line.hearPrefixes("a", holds(1, [3])); // to everybody
  line.hearPrefixes("b", holds(0, [1]));
  line.taken();
  line.hearPrefixes("b", { type: "gone", ids: [] });
  assert.deepEqual(line.taken(), [], "that is nothing to be said to everybody");
  const held = () => [
    [...router.match([1, 2, 3, 4])],
    router.numPages("a"),
    router.numHolders(1),
    router.numHolders(4),
  ];
  assert.deepEqual(held(), [
    [
      ["a", 3],
      ["b", 1],
    ],
    3,
    2,
    0,
  ]);
  const owner = new Owner();
  start(cluster, "a", owner, { keys: [1, 2, 3, 4] });
  start(cluster, "a", owner);
  assert.deepEqual(
    held(),
    [
      [
        ["a", 4],
        ["b", 1],
      ],
      3,
      2,
      1,
    ],
    "it will hold what was sent to it",
  );
  cluster.nowMs += 60_000;
  assert.deepEqual(
    held(),
    [
      [
        ["a", 3],
        ["b", 1],
      ],
      3,
      2,
      0,
    ],
    "not for ever",
  );
  let numChanges = 0;
  router.follow({ onChange: () => numChanges++ });
  line.taken();
  members.onLost("a", "it left");
  assert.deepEqual(held(), [[["b", 1]], 0, 1, 0]);
  assert.deepEqual(owner.taken(), [["lost", "0", "fault", "it left"], ["lost", "1", "fault", "it left"], "flush"]);
  assert.deepEqual(line.taken(), [
    ["a", { type: "abort", id: "0", index: -1 }],
    ["a", { type: "abort", id: "1", index: -1 }],
  ]);
  assert.deepEqual([numChanges, router.numLost, router.numCalls, router.replicas().length], [1, 1, 0, 1]);
});

test("replicas are told what is open at them, again and again and after every reconnection; who is silent is looked for", async () => {
  using cluster = new ToldCluster(30);
  const { members, line } = cluster;
  members.onReplica(entryOf("a"));
  members.onReplica(entryOf("b"));
  start(cluster, "a", new Owner());
  line.taken();
  line.onReconnect();
  const open = [
    ["a", { type: "open", ids: ["0"], leaseMs: 30 }],
    ["b", { type: "open", ids: [], leaseMs: 30 }],
  ];
  assert.deepEqual(line.taken().slice(0, 2), open);
  const later: unknown[] = [];
  await until(() => later.push(...line.taken()) >= 4, "it is told again");
  assert.deepEqual(later.slice(0, 2), open);
  await until(() => cluster.numExpired > 1, "members are looked at");
});
