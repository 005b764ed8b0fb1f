import assert from "node:assert/strict";
import { test } from "node:test";
import type { OptionTable } from "../config/options.js";
import { helpOf, parseFlags } from "./args.js";

const TABLE = {
  pageSize: { type: "integer", min: 1, default: 16, help: "tokens in a page" },
  json: { type: "boolean", default: false, help: "print JSON" },
  stop: { type: "list", default: [], help: "stop strings" },
  mode: { type: "choice", choices: ["extend", "chunked"], default: "extend", help: "scheduler" },
} as const satisfies OptionTable;

test("flags in every spelling, positionals between them", () => {
  const parsed = parseFlags(TABLE, [
    "one",
    "--page-size",
    "8",
    "--json",
    "two",
    "--stop=a,b",
    "--stop",
    "c",
    "--",
    "--json",
  ]);
  assert.deepEqual(parsed.values, { pageSize: 8, json: true, stop: ["a", "b", "c"] });
  assert.deepEqual(parsed.positionals, ["one", "two", "--json"]);
  assert.deepEqual(parseFlags(TABLE, ["--no-json"]).values, { json: false });
  assert.deepEqual(parseFlags(TABLE, ["--json", "false"]).values, { json: false });
  assert.deepEqual(parseFlags(TABLE, ["--json", "story"]), {
    values: { json: true },
    positionals: ["story"],
    wantsHelp: false,
    wantsAllHelp: false,
  });
  assert.deepEqual(
    parseFlags({ ...TABLE, size: { type: "number", short: "s", default: 1, help: "" } }, ["-s", "-2"]).values,
    { size: -2 },
  );
  assert.equal(parseFlags(TABLE, ["-h"]).wantsHelp, true);
});

test("wrong flags get a message that names the right ones", () => {
  assert.throws(() => parseFlags(TABLE, ["--pagesize", "8"]), /Unknown option --pagesize\. Did you mean --page-size\?/);
  assert.throws(() => parseFlags(TABLE, ["--quite-different"]), /Known: --page-size, --json, --stop, --mode\./);
  assert.throws(
    () => parseFlags(TABLE, ["--page-size", "x"]),
    /--page-size is "x"; it must be a whole number of at least 1/,
  );
  assert.throws(() => parseFlags(TABLE, ["--page-size"]), /--page-size is missing; it must be followed by a value/);
  assert.throws(() => parseFlags(TABLE, ["--mode=fast"]), /--mode is "fast"; it must be one of extend, chunked/);
});

test("help shows every option with its default", () => {
  const help = helpOf(TABLE, { showEnv: true });
  assert.match(help, /--page-size INTEGER +tokens in a page \[16\] \(PAGODA_PAGE_SIZE\)/);
  assert.match(help, /--mode extend\|chunked/);
  const choices = ["one-kind", "another-kind", "a-third-kind"];
  const long = { ...TABLE, kind: { type: "choice", choices, default: "one-kind", help: "what it is" } } as const;
  const lines = helpOf(long, { columns: 70 }).split("\n");
  assert.ok(
    lines.every((line) => line.length <= 70),
    lines.join("\n"),
  );
  assert.match(
    lines.join(" ").replace(/ +/g, " "),
    /--kind CHOICE what it is; one of one-kind, another-kind, a-third-kind \[one-kind\]/,
  );
});
