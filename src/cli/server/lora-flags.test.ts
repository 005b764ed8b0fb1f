import assert from "node:assert/strict";
import { test } from "node:test";
import { fromVllmFlags } from "./lora-flags.js";

test("vLLM's flags for adapters become --adapter; what needs no saying here is left out", () => {
  const given = [
    "--enable-lora",
    "--port",
    "1",
    "--lora-modules",
    "a=x",
    '{"name":"b","path":"y"}',
    "--max-lora-rank",
    "64",
  ];
  assert.deepEqual(fromVllmFlags(given), ["--port", "1", "--adapter", "a=x", "--adapter", "b=y"]);
  assert.deepEqual(fromVllmFlags(["--lora-modules=a=x", "--max-loras=4", "-m", "base"]), [
    "--adapter",
    "a=x",
    "-m",
    "base",
  ]);
  assert.deepEqual(fromVllmFlags(["--lora-modules", "a=x", "base"]), ["--adapter", "a=x", "base"]);
  assert.deepEqual(fromVllmFlags(["--lora-modules", "{a"]), ["--adapter", "{a"]);
  assert.deepEqual(fromVllmFlags(["--adapter=a=x", "--lora", "1"]), ["--adapter=a=x", "--lora", "1"]);
});
