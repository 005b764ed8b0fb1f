import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../../test/support/until.js";
import type { Engine } from "../../engine/types.js";
import type { ServerContext } from "../context.js";
import type { GuestModel } from "./guest-model.js";
import { ModelHouse } from "./model-house.js";

/** A house whose guests load at once, with what was loaded and closed. */
class Told {
  readonly events: string[] = [];
  readonly asleep = new Set<string>();
  readonly logged: unknown[] = [];
  readonly house: ModelHouse;

  constructor(sizes: Readonly<Record<string, number>>, maxBytes: number | null = null) {
    const guestNamed = (name: string, bytes: number): GuestModel => ({
      name,
      load: async (onBytes) => {
        this.events.push(`load ${name}`);
        if (bytes < 0) throw new Error("no such file");
        onBytes(bytes);
        const close = async () => void this.events.push(`close ${name}`);
        const health = () => ({ state: this.asleep.has(name) ? "asleep" : "ready" });
        return { model: { maxContext: bytes }, adapters: [], close, health } as unknown as Engine;
      },
    });
    const guests = Object.entries(sizes).map(([name, bytes]) => guestNamed(name, bytes));
    const log = { error: (...given: unknown[]) => void this.logged.push(given) };
    const first = {
      modelNames: ["first", "alias"],
      engine: { model: { maxContext: 50 }, adapters: [], sleep: async () => this.asleep.add("first").size > 0 },
      log,
      calls: new Set(),
    };
    const furnish = (engine: Engine, name: string) =>
      ({ engine, modelNames: [name], calls: new Set() }) as unknown as ServerContext;
    const guestOf = (name: string): GuestModel => guestNamed(name, 5);
    this.house = new ModelHouse(first as unknown as ServerContext, guests, { maxBytes, furnish, guestOf });
  }

  /** Uses it for a moment. */
  async use(name: string): Promise<ServerContext> {
    const asker = {};
    const context = await this.house.contextFor(name, asker);
    this.house.leave(asker);
    return context;
  }

  taken(): string[] {
    return this.events.splice(0);
  }
}

const nameOf = ({ modelNames }: ServerContext) => modelNames[0];

test("guests are loaded when they are first named, once, by their own name or as the latest; the first has all other names", async () => {
  const told = new Told({ a: 10, "b:latest": 90 });
  const { house } = told;
  assert.deepEqual(house.names, ["first", "alias", "a", "b:latest"]);
  assert.deepEqual([house.loaded.map(nameOf), house.maxContext], [["first"], Number.POSITIVE_INFINITY]);
  for (const name of ["first", "alias", "none", undefined])
    assert.equal(nameOf(await house.contextFor(name, {})), "first");
  const [one, other] = await Promise.all([told.use("a"), told.use("a:latest")]);
  assert.equal(one, other);
  assert.equal(await told.use("a"), one);
  assert.deepEqual(
    [told.taken(), house.bytesOf("a"), house.bytesOf("b"), house.bytesOf("first")],
    [["load a"], 10, 0, 0],
  );
  assert.equal(house.maxContext, Number.POSITIVE_INFINITY, "one is not known");
  await told.use("b:latest");
  assert.deepEqual([house.loaded.map(nameOf), house.maxContext], [["first", "a", "b:latest"], 90]);
  assert.deepEqual([await house.unload("b:latest", {}), house.maxContext], [true, Number.POSITIVE_INFINITY]);
  const small = new Told({ a: 10 });
  await small.use("a");
  assert.equal(small.house.maxContext, 50, "the first has the longest");
});

test("several asked for at once where memory holds one are served one after the other; asking what is there loads nothing", async () => {
  const told = new Told({ a: 10, b: 10, c: 10 }, 10);
  assert.equal(told.house.contextNow("b"), null);
  assert.equal(nameOf(told.house.contextNow("none")!), "first");
  const served = await Promise.all(["a", "b", "c"].map((name) => told.use(name)));
  assert.deepEqual(served.map(nameOf), ["a", "b", "c"]);
  assert.deepEqual(told.taken(), ["load a", "load b", "close a", "load c", "close b"]);
  assert.equal(nameOf(told.house.contextNow("c")!), "c");
  await told.house.close();
});

test("a guest is unloaded on request unless others than the asker use it", async () => {
  const told = new Told({ a: 10 });
  const { house } = told;
  assert.equal(await house.unload("a", {}), false, "it is not loaded");
  const [asker, another] = [{}, {}];
  const context = await house.contextFor("a", asker);
  await house.contextFor("a", another);
  assert.equal(await house.unload("a", asker), false);
  house.leave(another);
  context.calls.add({} as never);
  assert.equal(await house.unload("a", asker), false, "one of its calls goes on");
  context.calls.clear();
  assert.equal(await house.unload("none", asker), false);
  assert.deepEqual([await house.unload("first", asker), [...told.asleep]], [true, ["first"]]);
  assert.deepEqual([await house.unload("a", asker), await house.unload("a", asker)], [true, false]);
  assert.deepEqual(told.taken(), ["load a", "close a"]);
  await told.use("a");
  await house.close();
  assert.deepEqual([told.taken(), house.loaded.length], [["load a", "close a"], 1]);
});

test("one that cannot be loaded is told so, and is tried again when it is named again", async () => {
  const told = new Told({ a: -1 });
  for (let i = 0; i < 2; i++)
    await assert.rejects(told.use("a"), {
      code: "model_unavailable",
      param: "model",
    });
  assert.deepEqual([told.taken(), told.logged.length], [["load a", "load a"], 2]);
  await told.house.close();
});

test("when memory is short the least recently used leaves; what fits exactly stays, what is larger than all runs alone", async (t) => {
  let nowMs = 1;
  t.mock.method(performance, "now", () => nowMs++);
  const told = new Told({ a: 10, b: 20, c: 30, huge: 100 }, 60);
  for (const name of ["a", "b", "c"]) await told.use(name);
  assert.deepEqual(told.taken(), ["load a", "load b", "load c"], "all of it is taken");
  await told.use("a");
  await told.use("huge");
  assert.deepEqual(told.taken(), ["load huge", "close b", "close c", "close a"]);
  await told.use("b");
  assert.deepEqual(told.taken(), ["close huge", "load b"], "what is known of its size counts before it is loaded");
  const asker = {};
  await told.house.contextFor("b", asker);
  const huge = told.use("huge");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(told.taken(), [], "it waits for one that is in use");
  told.house.leave(asker);
  await huge;
  assert.deepEqual(told.taken(), ["close b", "load huge"]);
  await told.house.contextFor("huge", asker);
  const late = assert.rejects(
    told.use("b"),
    (error: { code: string; param: string; headers: object; message: string }) => {
      assert.deepEqual(
        [error.code, error.param, error.headers],
        ["model_unavailable", "model", { "retry-after": "5" }],
      );
      return error.message.startsWith('There is no memory for the model "b" while others are in use.');
    },
  );
  nowMs += 60_001;
  await late;
  assert.deepEqual(told.taken(), []);
  const alone = new Told({ a: 61 }, 60);
  await until(async () => nameOf(await alone.use("a")) === "a", "it is alone");
});

test("a guest that sleeps takes no memory, and is loaded anew where there is room for it", async () => {
  const told = new Told({ a: 10, b: 10 }, 10);
  await told.use("a");
  told.asleep.add("a");
  await told.use("b");
  assert.deepEqual(told.taken(), ["load a", "load b"], "nobody had to leave");
  const [again] = [told.use("a")];
  told.asleep.clear();
  await again;
  assert.deepEqual(told.taken(), ["close a", "close b", "load a"]);
});

test("models come and go while the server runs; one that is used stays, and so does the first", async () => {
  const told = new Told({ a: 10 });
  const { house } = told;
  house.add("b");
  house.add("b");
  house.add("alias");
  assert.deepEqual(house.names, ["first", "alias", "a", "b"]);
  const asker = {};
  assert.equal(nameOf(await house.contextFor("b", asker)), "b");
  assert.deepEqual([await house.remove("b", {}), await house.remove("first", {})], [false, false]);
  house.leave(asker);
  assert.deepEqual([await house.remove("b", {}), await house.remove("b", {})], [true, true]);
  assert.deepEqual(
    [house.names, told.taken()],
    [
      ["first", "alias", "a"],
      ["load b", "close b"],
    ],
  );
  assert.equal(nameOf(await house.contextFor("b", {})), "first", "whose routes refuse the name");
});
