// What is said when a list of launches cannot become a graph. The driver is a fake of as many calls as it takes.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Driver } from "./abi.js";
import type { CudaContext } from "./context.js";
import { LaunchQueue } from "./launch-queue.js";

const INVALID_VALUE = 1;
const CAPTURE_INVALIDATED = 901;

test("a launch that fails in a capture is reported as itself", () => {
  const called: string[] = [];
  let isCapturing = false;
  const calls: Partial<Record<keyof Driver, () => number>> = {
    captureBegin: () => {
      isCapturing = true;
      return 0;
    },
    launch: () => (isCapturing ? INVALID_VALUE : 0),
    captureEnd: () => {
      isCapturing = false;
      return CAPTURE_INVALIDATED;
    },
  };
  const driver = new Proxy({} as Driver, {
    get: (_, name: keyof Driver) => () => {
      called.push(name);
      return calls[name]?.() ?? 0;
    },
  });
  const queue = new LaunchQueue({ driver, stream: 8, facts: { canOverlap: false } } as unknown as CudaContext);
  const step = (): void => {
    queue.isHeld = true;
    for (let i = 0; i < 8; i++) queue.begin(256, 4, 66432, 1, 256, 0).int(i).end();
    queue.flush();
  };
  step(); // a list is captured when it comes again
  assert.throws(step, (error: Error & { code: string }) => {
    assert.equal(error.code, "device_call");
    assert.match(error.message, /cuLaunchKernelEx\b.*66432/);
    return true;
  });
  assert.ok(called.includes("captureEnd"));
  assert.equal(queue.isEmpty, true);
});
