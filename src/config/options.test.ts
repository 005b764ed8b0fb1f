import assert from "node:assert/strict";
import { test } from "node:test";
import { ENGINE_OPTIONS, engineConfig } from "./engine-config.js";
import {
  defaultText,
  envOf,
  flagOf,
  fromEnvironment,
  type OptionTable,
  parseText,
  refuseUnknownVariables,
  resolveOptions,
} from "./options.js";

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
    /Option device is "gpu"; it must be one of auto, cuda, cuda:N, webgpu, cpu, wasm, reference/,
  );
  assert.throws(() => engineConfig({ pagesize: 16 }), /Unknown option pagesize\. Did you mean pageSize\?$/);
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

const ROWS = {
  count: { type: "integer", min: 1, max: 9, default: null, help: "" },
  least: { type: "number", min: 0.5, default: 2, help: "" },
  most: { type: "number", max: 3, default: 1, help: "" },
  any: { type: "integer", default: 0, help: "" },
  isOn: { type: "boolean", default: false, help: "" },
  name: { type: "string", default: null, defaultText: "none at all", help: "" },
  kind: { type: "choice", choices: ["a", "b"], default: "a", help: "" },
  device: { type: "choice", choices: ["x", "x:N"], pattern: /^x(:\d)?$/, default: "x", help: "" },
  names: { type: "list", default: [], help: "" },
  some: { type: "list", default: ["p", "q"], help: "" },
} as const satisfies OptionTable;
type Name = keyof typeof ROWS;

const parsed = (name: Name, text: string) => parseText(name, ROWS[name], text);

test("texts become values of their row's type", () => {
  for (const [name, text, value] of [
    ["count", "9", 9],
    ["count", " 1 ", 1],
    ["least", "0.5", 0.5],
    ["most", "-7", -7],
    ["most", "3", 3],
    ["name", "abc", "abc"],
    ["kind", "b", "b"],
    ["device", "x:3", "x:3"],
    ["names", "a, b,c", ["a", "b", "c"]],
  ] as const)
    assert.deepEqual(parsed(name, text), value, `${name} ${text}`);
  for (const text of ["1", "true", "YES", "on"]) assert.equal(parsed("isOn", text), true, text);
  for (const text of ["0", "false", "No", "off", ""]) assert.equal(parsed("isOn", text), false, text);
});

test("what a row cannot be is refused with what it can", () => {
  for (const [name, text, expected] of [
    ["count", "0", "a whole number from 1 to 9"],
    ["count", "10", "a whole number from 1 to 9"],
    ["count", "1.5", "a whole number from 1 to 9"],
    ["count", "", "a whole number from 1 to 9"],
    ["least", "0.4", "a number of at least 0.5"],
    ["least", "Infinity", "a number of at least 0.5"],
    ["most", "3.1", "a number of at most 3"],
    ["any", "x", "a whole number"],
    ["isOn", "maybe", "true or false"],
    ["name", "", "a non-empty string"],
    ["kind", "c", "one of a, b"],
    ["device", "y", "one of x, x:N"],
    ["names", "a,,b", "a list of non-empty strings"],
  ] as const)
    assert.throws(() => parsed(name, text), { message: RegExp(`must be ${expected}[.,]`) }, `${name} ${text}`);
  const resolve = (values: Record<string, unknown>) => resolveOptions<Record<Name, unknown>>(ROWS, values);
  for (const wrong of [
    { count: "3" },
    { isOn: 1 },
    { name: 3 },
    { device: 3 },
    { kind: 3 },
    { names: "a" },
    { names: [3] },
  ])
    assert.throws(() => resolve(wrong), { code: "invalid_option" }, JSON.stringify(wrong));
  assert.throws(() => resolve({ name: 3 }), /name is 3;/);
  assert.throws(() => resolve({ kind: "c" }), /kind is "c";/);
  assert.deepEqual(resolve({ least: null, most: undefined, any: -5 }), {
    ...{ count: null, least: 2, most: 1, any: -5, isOn: false, name: null, kind: "a", device: "x", names: [] },
    some: ["p", "q"],
  });
});

test("an empty variable is refused, and so is one that no option has", () => {
  assert.deepEqual(fromEnvironment(ROWS, { PAGODA_SOME: "a", PAGODA_IS_ON: "yes" }), { some: ["a"], isOn: true });
  for (const text of ["", "  "])
    assert.throws(() => fromEnvironment(ROWS, { PAGODA_NAMES: text }), /PAGODA_NAMES is empty; .*strings, or unset/);
  refuseUnknownVariables(ROWS, { PAGODA_NAME: "a", PAGODA_NVRTC: "b", HOME: "c", PAGODAS: "d" });
  assert.throws(() => refuseUnknownVariables(ROWS, { HOME: "a", PAGODA_NAMEZ: "b" }), /PAGODA_NAMEZ.*PAGODA_NAME/);
});

test("defaults as people read them", () => {
  const texts = (["name", "names", "some", "least", "isOn"] as const).map((name) => defaultText(ROWS[name]));
  assert.deepEqual(texts, ["none at all", "none", "p,q", "2", "false"]);
});
