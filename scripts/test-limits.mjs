// Loaded into each process of scripts/run-tests.mjs: a test that takes longer than PAGODA_TEST_LIMIT seconds ends its process with its name.
// node:test has limits for files only, and a file that hangs says nothing.
import { afterEach, beforeEach } from "node:test";
import { isMainThread } from "node:worker_threads";

// Tests may put others in their place.
const { setTimeout, clearTimeout } = globalThis;
const seconds = Number(process.env.PAGODA_TEST_LIMIT ?? 600);

if (isMainThread && process.env.NODE_TEST_CONTEXT?.startsWith("child")) {
  const timers = new Map();
  beforeEach((test) => {
    const end = () => {
      process.stderr.write(`${test.name}: took longer than ${seconds} s (PAGODA_TEST_LIMIT)\n`);
      process.exit(1);
    };
    timers.set(test.name, setTimeout(end, seconds * 1000).unref());
  });
  afterEach((test) => {
    clearTimeout(timers.get(test.name));
    timers.delete(test.name);
  });
}
