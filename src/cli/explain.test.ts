import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  EXPLAIN_OPTIONS,
  explainCommand,
  explainHelp,
  parseExplainArgs,
  renderExplain,
  renderExplainSvg,
  runExplain,
} from "./explain.js";
import { expandPages, pageList } from "./explain-report.js";

test("arguments become options; what is not given keeps its default", () => {
  const { options, isJson, svg } = parseExplainArgs([
    "--requests",
    "250,300",
    "--page-size=32",
    "--decodes",
    "5",
    "--json",
  ]);
  assert.deepEqual(options, { requests: [250, 300], pageSize: 32, decodes: [5] });
  assert.deepEqual([isJson, svg], [true, null]);
  assert.equal(runExplain({ chunk: 64 }).options.fixedChunk, 64);
});

test("wrong arguments are named, with what would be right", () => {
  assert.throws(() => parseExplainArgs(["--request", "5"]), /Unknown option --request\. Known options: --requests, /);
  assert.throws(() => parseExplainArgs(["250"]), /Unknown option 250/);
  assert.throws(() => parseExplainArgs(["--requests", "5,-3"]), /--requests is -3; it must be whole numbers/);
  assert.throws(() => parseExplainArgs(["--requests"]), /--requests is empty/);
  assert.throws(() => runExplain({ requests: [0] }), /--requests is 0/);
  assert.throws(() => runExplain({ requests: [1e9] }), /--requests is 1000000000/);
  assert.throws(() => runExplain({ requests: [] }), /at least one length/);
  assert.throws(
    () => runExplain({ requests: [60_000], pageSize: 1, budget: 256 }),
    /60000 pages in all; .* at most 4096/,
  );
  assert.throws(() => runExplain({ budget: 100 }), /--budget is 100; it must be a multiple of the page size, 16/);
  assert.throws(() => runExplain({ budget: 16, decodes: Array(16).fill(1) }), /--decodes is 16 rows/);
});

test("help lists every option", () => {
  for (const { flag } of EXPLAIN_OPTIONS) assert.ok(explainHelp().includes(`--${flag}`), flag);
});

test("the text tells the walkthrough", () => {
  const text = renderExplain(runExplain({ requests: [250, 300], decodes: [50] }));
  for (const part of [
    "R1C1",
    "[128, 250)",
    "gathers [0, 128) pages",
    "scatters",
    "decoding at 50",
    "invocations",
    "1 @50",
  ]) {
    assert.ok(text.includes(part), part);
  }
  assert.ok(text.split("\n").every((line) => line === line.trimEnd()));
});

test("a long report is cut and says so", () => {
  const text = renderExplain(runExplain({ requests: [1600], chunk: 16 }));
  assert.match(text, /76 more batches; --json has them/);
});

test("decodes that fill all but one token of the budget still let a prompt through", () => {
  const { extend, chunked } = runExplain({ requests: [40], decodes: Array(31).fill(20), budget: 32, chunk: 32 });
  assert.equal(extend.tokens, chunked.tokens);
  assert.ok(extend.batches.some((batch) => batch.rows.some((row) => !row.isDecode)));
  assert.ok(extend.batches.every((batch) => batch.tokens <= 32));
});

test("only decodes: one batch", () => {
  const { extend, chunked } = runExplain({ requests: [], decodes: [50, 120, 80] });
  assert.deepEqual([extend.batches.length, chunked.batches.length], [1, 1]);
  assert.deepEqual(extend.batches[0]!.args.tokensShape, [3, 1]);
});

test("page lists join consecutive ids and expand again", () => {
  assert.equal(pageList([1, 2, 3, 9, 4, 5]), "1-3,9,4-5");
  assert.deepEqual(expandPages("1-3,9,4-5"), [1, 2, 3, 9, 4, 5]);
  assert.deepEqual([pageList([]), expandPages("")], ["", []]);
});

test("the drawing has a bar per row and a cell per page, and its tags close", () => {
  const report = runExplain({ requests: [250, 300], decodes: [50] });
  const svg = renderExplainSvg(report);
  const numRows = report.extend.batches.reduce((n, batch) => n + batch.rows.length, 0);
  const numPages = report.requests.reduce((n, request) => n + request.numPages, 0);
  assert.equal(svg.match(/<title>[RD]\d+: /g)!.length, numRows);
  assert.equal(svg.match(/<title>page /g)!.length, numPages);
  for (const tag of ["svg", "g", "title", "text"]) {
    assert.equal(svg.split(`<${tag}`).length, svg.split(`</${tag}>`).length, tag);
  }
  assert.ok(!/NaN|undefined/.test(svg));
});

test("--svg writes the file; a path that cannot be written is refused with code 2", async () => {
  let said = "";
  const keep = { write: (text: string) => (said += text) };
  const io = { stdout: keep, stderr: keep };
  const folder = await mkdtemp(join(tmpdir(), "pagoda-explain-"));
  try {
    assert.equal(await explainCommand(["--svg", join(folder, "x.svg")], io), 0);
    assert.match(await readFile(join(folder, "x.svg"), "utf8"), /^<svg /);
    assert.equal(await explainCommand(["--svg", join(folder, "no", "x.svg")], io), 2);
    assert.match(said, /--svg is .*; it must be a file that can be written \(ENOENT\)/);
  } finally {
    await rm(folder, { recursive: true });
  }
});
