import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { QuickHistogram } from "./quick-histogram.js";

test("a scrape has the cumulative buckets, sum and count; a bound belongs to its bucket", async () => {
  const registry = new Registry();
  const histogram = new QuickHistogram("took", "How long.", [1, 5], registry);
  histogram.observe(1);
  histogram.observe(2, 3);
  histogram.observe(5);
  histogram.observe(6);
  assert.deepEqual((await registry.metrics()).trim().split("\n"), [
    "# HELP took How long.",
    "# TYPE took histogram",
    'took_bucket{le="1"} 1',
    'took_bucket{le="5"} 5',
    'took_bucket{le="+Inf"} 6',
    "took_sum 18",
    "took_count 6",
  ]);
});
