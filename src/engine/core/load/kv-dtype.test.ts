import assert from "node:assert/strict";
import { test } from "node:test";
import { NullDevice } from "../../../device/null/null-device.js";
import { kvDtypeOf } from "./kv-dtype.js";

test("pages are of the type asked for, else the device's; on the host those of encoders are exact", () => {
  const host = new NullDevice();
  const gpu = Object.assign(new NullDevice(), { info: { ...host.info, hasOwnMemory: true, kvDtype: "bf16" } });
  const [auto, both] = [{ kvDtype: "auto" } as const, { isBidirectional: true }];
  assert.deepEqual([kvDtypeOf({ kvDtype: "i8" }, host, both), kvDtypeOf({ kvDtype: "f32" }, gpu)], ["i8", "f32"]);
  assert.deepEqual([kvDtypeOf(auto, host), kvDtypeOf(auto, gpu)], ["f16", "bf16"]);
  assert.deepEqual([kvDtypeOf(auto, host, both), kvDtypeOf(auto, gpu, both)], ["f32", "bf16"]);
  assert.equal(kvDtypeOf(auto, host, { isBidirectional: false }), "f16");
});
