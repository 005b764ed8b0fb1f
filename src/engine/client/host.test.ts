// A host that is started before anybody hears it: nothing it says is lost, and it is started once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { engineConfig } from "../../config/engine-config.js";
import type { FromEngine } from "../messages.js";
import { type EngineHost, prestart } from "./host.js";

/** Hosts that say what they are told to, in the order in which they were started. */
function fakeHosts() {
  const started: { host: EngineHost; say: (loadedBytes: number) => void; numClosed: number }[] = [];
  const begin = (_: unknown, listener: (message: FromEngine) => void): EngineHost => {
    const host: EngineHost = {
      post: () => undefined,
      close: async () => {
        entry.numClosed++;
      },
    };
    const say = (loadedBytes: number): void => listener({ type: "progress", loadedBytes, totalBytes: 9 });
    const entry = { host, say, numClosed: 0 };
    started.push(entry);
    return host;
  };
  return { started, begin };
}

const config = engineConfig({ worker: true });

test("what a thread says before it is taken over is heard after that, in order", async () => {
  const { started, begin } = fakeHosts();
  const ahead = prestart(config, begin);
  started[0]!.say(1);
  started[0]!.say(2);
  const heard: number[] = [];
  const host = ahead.start(config, (message) => message.type === "progress" && heard.push(message.loadedBytes));
  assert.deepEqual(heard, [], "whoever starts a host has it before it hears it");
  assert.equal(host, started[0]!.host);
  await Promise.resolve();
  started[0]!.say(3);
  assert.deepEqual(heard, [1, 2, 3]);
});

test("the first start takes it over, the next begins another; what is taken is not abandoned", () => {
  const { started, begin } = fakeHosts();
  const ahead = prestart(config, begin);
  const hosts = [1, 2, 3].map(() => ahead.start(config, () => undefined));
  assert.deepEqual(
    hosts,
    started.map(({ host }) => host),
  );
  ahead.abandon();
  assert.deepEqual(
    started.map(({ numClosed }) => numClosed),
    [0, 0, 0],
  );
});

test("one that nobody takes over is closed", () => {
  const { started, begin } = fakeHosts();
  prestart(config, begin).abandon();
  assert.deepEqual(
    started.map(({ numClosed }) => numClosed),
    [1],
  );
});

test("on the caller's own thread nothing begins ahead", () => {
  const { started, begin } = fakeHosts();
  const inProcess = engineConfig({ worker: false });
  const ahead = prestart(inProcess, begin);
  assert.equal(started.length, 0);
  ahead.start(inProcess, () => undefined);
  ahead.abandon();
  assert.deepEqual(
    started.map(({ numClosed }) => numClosed),
    [0],
  );
});
