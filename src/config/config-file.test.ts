import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fromConfigFile } from "./config-file.js";
import { ENGINE_OPTIONS } from "./engine-config.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-config-"));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, "pagoda.json");

function read(text: string): Record<string, unknown> {
  writeFileSync(path, text);
  return fromConfigFile(ENGINE_OPTIONS, path);
}

test("a config file is one object of known options, with or without a byte order mark", () => {
  assert.deepEqual(read('{"pageSize": 8, "model": "m"}'), { pageSize: 8, model: "m" });
  assert.deepEqual(read('\ufeff{"pageSize": 8}'), { pageSize: 8 });
  assert.throws(() => read('{"pageSize": 8, "pagesise": 8}'), /pagesise in .*pagoda\.json.*pageSize/);
  for (const text of ["[]", "null", "3", '"a"']) assert.throws(() => read(text), /it holds no object/, text);
  assert.throws(() => read("{"), /a JSON file of options \(.*JSON/);
  assert.throws(() => fromConfigFile(ENGINE_OPTIONS, join(folder, "none")), /ENOENT/);
});
