// The walkthrough of the extend-attention text (A) through the real scheduler and cache manager, as `pagoda explain` runs it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runExplain } from "../../src/cli/explain/explain.js";

const names = (report: ReturnType<typeof runExplain>, mode: "extend" | "chunked") =>
  report[mode].batches.map((batch) => batch.rows.map((row) => `${row.request}${row.isDecode ? "" : `C${row.chunk}`}`));

test("A20: 250 and 300 tokens are the text's three batches, with its lengths, starts and efficiencies", () => {
  const report = runExplain({ requests: [250, 300], pageSize: 16, chunk: 128, budget: 256 });
  const { batches } = report.extend;
  assert.deepEqual(names(report, "extend"), [["R1C1", "R2C1"], ["R1C2", "R2C2"], ["R2C3"]]);
  assert.deepEqual(
    batches.map((batch) => batch.args.queryLens),
    [[128, 128], [122, 128], [44]],
  );
  assert.deepEqual(
    batches.map((batch) => batch.args.startPositions),
    [[0, 0], [128, 128], [256]],
  );
  assert.deepEqual(
    batches.map((batch) => [batch.tokens, batch.padding, (100 * batch.efficiency).toFixed(1)]),
    [
      [256, 0, "100.0"],
      [250, 6, "97.7"],
      [44, 4, "91.7"],
    ],
  );
  assert.deepEqual(
    batches.map((batch) => batch.args.tokensShape),
    [
      [2, 128],
      [2, 128],
      [1, 48],
    ],
  );
});

test("AX2: the walkthrough with corrected pages: 16 and 19, gathers and scatters on whole pages, none written twice", () => {
  const { extend, requests } = runExplain({ requests: [250, 300], pageSize: 16, chunk: 128, budget: 256 });
  assert.deepEqual(
    requests.map((request) => request.numPages),
    [16, 19],
  );
  const rows = extend.batches.flatMap((batch) => batch.rows);
  assert.deepEqual(
    rows.map((row) => [row.gathers.pages, row.scatters.pages]),
    [
      ["", "1-8"],
      ["", "17-24"],
      ["1-8", "9-16"],
      ["17-24", "25-32"],
      ["17-32", "33-35"],
    ],
  );
  assert.ok(
    requests.every((request) => !request.pages.split(/[-,]/).includes("0")),
    "the null page is nobody's",
  );
});

test("A17: 128 + 64 prompt tokens and 64 decodes fill 256 in one invocation, decodes at 50, 120 and 80 among them", () => {
  const decodes = [50, 120, 80, ...Array.from({ length: 61 }, (_, i) => 10 + i)];
  const { extend } = runExplain({ requests: [128, 64], decodes, pageSize: 16, chunk: 128, budget: 256 });
  assert.equal(extend.batches.length, 1);
  assert.equal(extend.batches[0]!.tokens, 256);
  assert.equal(extend.batches[0]!.rows.length, 66);
  assert.deepEqual(extend.batches[0]!.args.startPositions.slice(0, 3), [50, 120, 80]);
});

test("A17 AX5: 10 decodes and 240 prompt tokens are 250 of 256; decodes cost one token each", () => {
  const { extend } = runExplain({ requests: [128, 112], decodes: Array(10).fill(33), budget: 256 });
  assert.deepEqual([extend.batches.length, extend.batches[0]!.tokens], [1, 250]);
});

test("A22 AX8: chunked mode needs 3 invocations here too, not 5; its loss is padding: 90 against 10", () => {
  const { extend, chunked } = runExplain({ requests: [250, 300] });
  assert.deepEqual([extend.batches.length, chunked.batches.length], [3, 3]);
  assert.deepEqual([extend.padding, chunked.padding], [10, 90]);
  assert.deepEqual([extend.largestBatchRows, chunked.largestBatchRows], [2, 2]);
  assert.deepEqual(chunked.batches[2]!.args.tokensShape, [1, 128]);
});

test("A22: with decodes, extend mixes and needs fewer invocations for the same tokens", () => {
  const { extend, chunked } = runExplain({ requests: [250, 300], decodes: [50, 120, 80] });
  assert.equal(extend.tokens, chunked.tokens);
  assert.ok(extend.batches.length < chunked.batches.length);
  assert.ok(extend.mixedBatches > 0);
  assert.equal(chunked.mixedBatches, 0);
});

test("A13: fixed chunks of 2 pages start at 0, 32, 64, ...", () => {
  const { chunked } = runExplain({ requests: [100], fixedChunk: 32 });
  assert.deepEqual(
    chunked.batches.map((batch) => [batch.rows[0]!.start, batch.rows[0]!.queryLen, batch.rows[0]!.contextLen]),
    [
      [0, 32, 32],
      [32, 32, 64],
      [64, 32, 96],
      [96, 4, 100],
    ],
  );
});

test("AX3: 50 tokens by 16 are four chunks on four pages", () => {
  const { extend, requests } = runExplain({ requests: [50], chunk: 16 });
  assert.deepEqual(
    extend.batches.map((batch) => batch.rows[0]!.queryLen),
    [16, 16, 16, 2],
  );
  assert.equal(requests[0]!.numPages, 4);
});
