import assert from "node:assert/strict";
import { test } from "node:test";
import { ENGINE_OPTIONS, engineConfig } from "./engine-config.js";
import { envOf, flagOf, fromEnvironment } from "./options.js";

test("later layers win, and the result is frozen", () => {
  const config = engineConfig({ pageSize: 8, threads: 2 }, { pageSize: 32 }, { threads: undefined });
  assert.equal(config.pageSize, 32);
  assert.equal(config.threads, 2);
  assert.equal(config.maxPagesPerBatch, 32);
  assert.throws(() => {
    (config as { pageSize: number }).pageSize = 1;
  }, TypeError);
});

test("bad values are refused with value, limit and remedy", () => {
  assert.throws(
    () => engineConfig({ pageSize: 0 }),
    /Option pageSize is 0; it must be a whole number from 1 to 1024\./,
  );
  assert.throws(() => engineConfig({ pageSize: Number.NaN }), /pageSize is NaN/);
  assert.throws(
    () => engineConfig({ device: "gpu" }),
    /Option device is "gpu"; it must be one of auto, cuda, cuda:N, cpu, wasm, reference/,
  );
  assert.throws(() => engineConfig({ pagesize: 16 }), /Unknown option pagesize\. Known options: pageSize\.$/);
});

test("environment variables are named after the option and parsed by its type", () => {
  assert.equal(flagOf("maxPagesPerBatch"), "--max-pages-per-batch");
  assert.equal(envOf("maxPagesPerBatch"), "PAGODA_MAX_PAGES_PER_BATCH");
  const env = { PAGODA_PAGE_SIZE: "32", PAGODA_PREFIX_CACHING: "off", HOME: "/x" };
  assert.deepEqual(fromEnvironment(ENGINE_OPTIONS, env), { pageSize: 32, prefixCaching: false });
  assert.throws(
    () => fromEnvironment(ENGINE_OPTIONS, { PAGODA_PAGE_SIZE: "many" }),
    /PAGODA_PAGE_SIZE is "many"; it must be a whole number/,
  );
});
