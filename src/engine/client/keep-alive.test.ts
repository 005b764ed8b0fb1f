import assert from "node:assert/strict";
import { test } from "node:test";
import { KeepAlive } from "./engine-connection.js";

test("one timer holds the process, however often it is asked for, until it is let go", async () => {
  const held = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = held();
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => warnings.push(name);
  process.on("warning", onWarning);
  const hold = new KeepAlive();
  for (const isBusy of [false, true, true, false, true]) {
    hold.set(isBusy);
    assert.equal(held(), before + (isBusy ? 1 : 0));
  }
  hold.set(false);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", onWarning);
  assert.deepEqual([warnings, held()], [[], before], "a timer takes no more milliseconds than it can");
});
