import assert from "node:assert/strict";
import { test } from "node:test";
import { NullDevice } from "../../device/null/null-device.js";
import { median, summaryOf } from "./statistics.js";
import { OpTimes, timedDevice } from "./timed-device.js";
import { makeTrace, promptNumbers } from "./trace.js";

const SHAPE = {
  seed: 7,
  numRequests: 4000,
  inputLen: { min: 16, max: 512 },
  outputLen: { min: 3, max: 3 },
  rate: 20,
  arrival: "poisson",
} as const;

test("a seed is a trace", () => {
  assert.deepEqual(makeTrace(SHAPE), makeTrace(SHAPE));
  assert.notDeepEqual(makeTrace(SHAPE), makeTrace({ ...SHAPE, seed: 8 }));
  assert.deepEqual(promptNumbers(7, 3, 20, 5, 100), promptNumbers(7, 3, 20, 5, 100));
});

test("lengths stay in their range and use all of it", () => {
  const trace = makeTrace(SHAPE);
  const lengths = trace.map((request) => request.promptLen);
  assert.deepEqual([Math.min(...lengths), Math.max(...lengths)], [16, 512]);
  assert.ok(trace.every((request) => request.outputLen === 3));
});

test("arrivals come at the rate: spread like a Poisson process, or evenly, or all at once", () => {
  const gaps = (trace: ReturnType<typeof makeTrace>) => trace.slice(1).map((r, i) => r.arrivalMs - trace[i]!.arrivalMs);
  const poisson = gaps(makeTrace(SHAPE));
  const mean = poisson.reduce((sum, gap) => sum + gap, 0) / poisson.length;
  assert.ok(Math.abs(mean - 50) < 3, `mean gap ${mean} ms at 20 a second`);
  // Exponential gaps have a deviation equal to their mean.
  const deviation = Math.sqrt(poisson.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / poisson.length);
  assert.ok(Math.abs(deviation / mean - 1) < 0.1, `deviation ${deviation} ms`);
  assert.ok(gaps(makeTrace({ ...SHAPE, arrival: "fixed" })).every((gap) => Math.abs(gap - 50) < 1e-6));
  assert.ok(makeTrace({ ...SHAPE, rate: 0 }).every((request) => request.arrivalMs === 0));
});

test("prompts share their prefix and nothing else", () => {
  const [a, b] = [promptNumbers(1, 0, 40, 16, 1000), promptNumbers(1, 1, 40, 16, 1000)];
  assert.deepEqual(a.slice(0, 16), b.slice(0, 16));
  assert.notDeepEqual(a.slice(16), b.slice(16));
  assert.ok(a.every((id) => id >= 0 && id < 1000));
});

test("percentiles lie between ranks", () => {
  const summary = summaryOf([4, 1, 3, 2, 5]);
  assert.deepEqual(summary, { count: 5, mean: 3, p50: 3, p90: 4.6, p99: 4.96 });
  assert.equal(median([1, 2]), 1.5);
  assert.equal(summaryOf([]).p99, 0);
});

test("a timed device does what the device does, and counts", () => {
  const device = new NullDevice();
  const times = new OpTimes();
  const timed = timedDevice(device, times);
  const tensor = timed.allocTensor(2, 4);
  const add = timed.createMap({ kind: "add", scale: 1 });
  timed.map(tensor, add, tensor, tensor, 2);
  timed.map(tensor, add, tensor, tensor, 2);
  assert.equal(timed.info, device.info);
  assert.equal(device.calls.map, 2);
  assert.equal(times.ops.get("map")!.calls, 2);
  assert.equal(times.calls, 2);
  times.reset();
  assert.equal(times.calls, 0);
});
