import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "./registry.js";

const linesOf = (registry: Registry) => registry.text().trim().split("\n");

test("a histogram has cumulative buckets, sum and count; a bound belongs to its bucket", () => {
  const registry = new Registry();
  const histogram = registry.histogram("took", "How long.", [1, 5]);
  histogram.observe(1);
  histogram.observe(2, 3);
  histogram.observe(5);
  histogram.observe(6);
  assert.deepEqual(linesOf(registry), [
    "# HELP took How long.",
    "# TYPE took histogram",
    'took_bucket{le="1"} 1',
    'took_bucket{le="5"} 5',
    'took_bucket{le="+Inf"} 6',
    "took_sum 18",
    "took_count 6",
  ]);
});

test("samples with the same labels are one; the registry's labels follow their own", () => {
  const registry = new Registry({ model_name: "tiny" });
  const counter = registry.counters("requests_total", "Requests");
  counter.add(1, { route: "/a", status: 200 });
  counter.add(2, { route: "/a", status: 200 });
  counter.add(1, { route: "/b", status: 200 });
  assert.deepEqual(linesOf(registry).slice(2), [
    'requests_total{route="/a",status="200",model_name="tiny"} 3',
    'requests_total{route="/b",status="200",model_name="tiny"} 1',
  ]);
});

test("values that are read at a scrape are those of its time", () => {
  const registry = new Registry();
  let now = 4;
  registry.gauge("now", "Now", () => now);
  assert.equal(linesOf(registry).at(-1), "now 4");
  now = 5;
  assert.equal(linesOf(registry).at(-1), "now 5");
  registry.gauges("states", "By state", (samples) => {
    samples.clear();
    samples.add(1, { state: now });
  });
  registry.text();
  now = 6;
  assert.deepEqual(linesOf(registry).slice(-1), ['states{state="6"} 1']);
});

test("what a label or a help text holds cannot end its line", () => {
  const registry = new Registry();
  registry.gauges("odd", "two\nlines \\").set(Number.POSITIVE_INFINITY, { name: 'a"} 1\nfake 2\\' });
  assert.deepEqual(linesOf(registry), [
    "# HELP odd two\\nlines \\\\",
    "# TYPE odd gauge",
    'odd{name="a\\"} 1\\nfake 2\\\\"} +Inf',
  ]);
});

test("one value is there before anything happened; values by labels are not", () => {
  const registry = new Registry();
  registry.counter("restarts_total", "Restarts");
  registry.counters("by_route_total", "By route");
  assert.deepEqual(
    linesOf(registry).filter((line) => line !== "" && !line.startsWith("#")),
    ["restarts_total 0"],
  );
});
