import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { flagOf } from "../../config/options.js";
import { EXPLAIN_OPTIONS, explainCommand, renderExplain, renderExplainSvg, runExplain } from "./explain.js";
import { expandPages, pageList } from "./report.js";

/** What the command prints. */
async function explain(...args: string[]): Promise<string> {
  let said = "";
  assert.equal(await explainCommand(args, { write: (text) => (said += text) }), 0);
  return said;
}

test("arguments become options; what is not given keeps its default", async () => {
  const json = await explain("--requests", "250,70", "--page-size=32", "--decodes", "5", "--json");
  const { options } = JSON.parse(json);
  assert.deepEqual(options, {
    requests: [250, 70],
    decodes: [5],
    pageSize: 32,
    chunk: 128,
    fixedChunk: 128,
    budget: 256,
  });
  assert.equal(runExplain({ chunk: 64 }).options.fixedChunk, 64);
});

test("wrong arguments are named, with what would be right", async () => {
  await assert.rejects(explainCommand(["--reqests", "5"]), /Unknown option --reqests\. Did you mean --requests/);
  await assert.rejects(explainCommand(["--requests", "5,-3"]), /--requests is -3; it must be whole numbers/);
  await assert.rejects(explainCommand(["--requests"]), /--requests is missing/);
  await assert.rejects(explainCommand(["--budget", "x"]), /--budget is "x"; it must be a whole number/);
  assert.throws(() => runExplain({ requests: [0] }), /--requests is 0/);
  assert.throws(() => runExplain({ requests: [1e9] }), /--requests is 1000000000/);
  assert.throws(() => runExplain({ requests: [] }), /at least one length/);
  assert.throws(() => runExplain({ requests: [60_000], pageSize: 1 }), /60000 pages in all; .* at most 4096/);
  assert.throws(() => runExplain({ budget: 100 }), /--budget is 100; it must be a multiple of the page size, 16/);
  assert.throws(() => runExplain({ budget: 16, decodes: Array(16).fill(1) }), /--decodes is 16 rows/);
});

test("help lists every option", async () => {
  const help = await explain("--help");
  for (const key of Object.keys(EXPLAIN_OPTIONS)) assert.ok(help.includes(flagOf(key)), key);
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

test("--svg writes the file; a path that cannot be written is refused", async () => {
  const folder = await mkdtemp(join(tmpdir(), "pagoda-explain-"));
  try {
    await explain("--svg", join(folder, "x.svg"));
    assert.match(await readFile(join(folder, "x.svg"), "utf8"), /^<svg /);
    await assert.rejects(
      explainCommand(["--svg", join(folder, "no", "x.svg")]),
      /--svg is .*; it must be a file that can be written \(ENOENT\)/,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
