import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openFilesUnder } from "../../../test/support/open-files.js";
import { FormatError } from "../../core/errors.js";
import { openSafetensors, openShardedSafetensors } from "./safetensors.js";

const dir = mkdtempSync(join(tmpdir(), "pagoda-safetensors-"));
after(() => rmSync(dir, { recursive: true }));

interface Spec {
  dtype: unknown;
  shape: unknown;
  data_offsets: unknown;
}

function write(name: string, header: unknown, data: Uint8Array, headerBytes?: bigint): string {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(headerBytes ?? BigInt(json.length));
  const path = join(dir, name);
  writeFileSync(path, Buffer.concat([prefix, json, data]));
  return path;
}

const data = Uint8Array.from({ length: 32 }, (_, i) => i);
const good = (): Record<string, Spec> => ({
  a: { dtype: "F32", shape: [2, 3], data_offsets: [0, 24] },
  b: { dtype: "BF16", shape: [4], data_offsets: [24, 32] },
});

function refuses(action: () => unknown, ...parts: RegExp[]): void {
  assert.throws(action, (error: Error) => {
    assert.ok(error instanceof FormatError, String(error.stack));
    for (const part of parts) assert.match(error.message, part);
    return true;
  });
}

test("reads tensors by name, with their place in the file", () => {
  const path = write("good.safetensors", { __metadata__: { format: "pt" }, ...good() }, data);
  const source = openSafetensors(path);
  assert.deepEqual([...source.names()], ["a", "b"]);
  assert.equal(source.has("a"), true);
  assert.equal(source.has("__metadata__"), false);
  const b = source.get("b", [4]);
  assert.equal(b.dtype, "bf16");
  assert.deepEqual(b.bytes(), data.subarray(24, 32));
  assert.equal(b.file?.path, path);
  assert.deepEqual(source.get("a").bytes(), data.subarray(0, 24));
  source.close();
  assert.throws(() => b.bytes(), /closed/);
});

test("get names the file, the tensor, the expected and the found shape", () => {
  const source = openSafetensors(write("get.safetensors", good(), data));
  refuses(() => source.get("c", [5, 6]), /get\.safetensors/, /tensor c is missing/, /\[5, 6\]/);
  refuses(() => source.get("a", [3, 2]), /get\.safetensors/, /tensor a/, /shape \[3, 2\]/, /found \[2, 3\]/);
  source.close();
});

test("a dtype that no model uses is an error only for who asks for it", () => {
  const header = { mask: { dtype: "BOOL", shape: [32], data_offsets: [0, 32] } };
  const source = openSafetensors(write("bool.safetensors", header, data));
  refuses(() => source.get("mask"), /tensor mask/, /found BOOL/);
  source.close();
});

test("every dtype has its bytes; tensors stand in any order", () => {
  const sizes = { F64: 8, F32: 4, F16: 2, BF16: 2, F8_E4M3: 1, F8_E5M2: 1, F8_E8M0: 1, I64: 8, I32: 4, I16: 2, I8: 1 };
  const usable = ["F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "I32", "I8", "U8"];
  for (const [dtype, bytes] of Object.entries({ ...sizes, U64: 8, U32: 4, U16: 2, U8: 1, BOOL: 1 })) {
    const at = (end: number) => write("dtype.safetensors", { t: { dtype, shape: [3], data_offsets: [0, end] } }, data);
    const source = openSafetensors(at(3 * bytes));
    if (usable.includes(dtype)) assert.deepEqual(source.get("t").bytes(), data.subarray(0, 3 * bytes));
    else refuses(() => source.get("t"), /a dtype of F32, F16/, new RegExp(`found ${dtype}`));
    source.close();
    refuses(() => openSafetensors(at(3 * bytes - 1)), new RegExp(`${3 * bytes} bytes for ${dtype} \\[3\\], found`));
  }
  const one = (begin: number, end = begin + 4) => ({ dtype: "F32", shape: [1], data_offsets: [begin, end] });
  const source = openSafetensors(write("order.safetensors", { c: one(8), a: one(0), d: one(12), b: one(4) }, data));
  assert.deepEqual(source.get("d").bytes(), data.subarray(12, 16));
  source.close();
  const overlap = { c: one(8), a: one(0), d: one(12), b: one(5) };
  refuses(
    () => openSafetensors(write("order.safetensors", overlap, data)),
    /tensor c: expected bytes of its own from \d+, found \d+, inside b/,
  );
});

test("what was found is shown as far as it can be read", () => {
  const found = (length: number) => {
    try {
      openSafetensors(write("long.safetensors", { t: "x".repeat(length) }, data));
    } catch (error) {
      return /found (.*)\.$/.exec((error as Error).message)?.[1] ?? (error as FormatError).message;
    }
  };
  assert.match(found(100)!, /x{100}/);
  assert.doesNotMatch(found(100)!, /\.\.\./);
  assert.equal(found(101), `${"x".repeat(97)}...`);
});

test("every defect of a header is refused with what was expected and found", () => {
  const cases: [string, (header: Record<string, Spec>) => void, RegExp[]][] = [
    ["dtype", (h) => (h.a!.dtype = "F12"), [/tensor a: dtype/, /found F12/]],
    ["dtype-proto", (h) => (h.a!.dtype = "toString"), [/tensor a: dtype/]],
    ["shape-negative", (h) => (h.a!.shape = [-2, -3]), [/tensor a: shape/, /\[-2,-3\]/]],
    ["shape-fraction", (h) => (h.a!.shape = [1.5, 4]), [/tensor a: shape/]],
    ["shape-string", (h) => (h.a!.shape = "2,3"), [/tensor a: shape/]],
    ["shape-overflow", (h) => (h.a!.shape = [2 ** 40, 2 ** 40]), [/tensor a: shape/, /2\^53/]],
    ["shape-bytes", (h) => (h.a!.shape = [2, 4]), [/tensor a/, /32 bytes for F32 \[2, 4\]/, /found 24/]],
    ["offset-outside", (h) => (h.b!.data_offsets = [25, 33]), [/tensor b: data_offsets/, /32 bytes of data/]],
    ["offset-reversed", (h) => (h.b!.data_offsets = [32, 24]), [/tensor b: data_offsets/]],
    ["offset-huge", (h) => (h.b!.data_offsets = [2 ** 60, 2 ** 60 + 8]), [/tensor b: data_offsets/]],
    ["offset-one", (h) => (h.b!.data_offsets = [24]), [/tensor b: data_offsets/]],
    ["overlap", (h) => (h.b!.data_offsets = [20, 28]), [/tensor b/, /inside a/]],
    ["entry", (h) => (h.a = 7 as unknown as Spec), [/tensor a/, /found 7/]],
  ];
  for (const [name, damage, parts] of cases) {
    const header = good();
    damage(header);
    const path = write(`${name}.safetensors`, header, data);
    refuses(() => openSafetensors(path), new RegExp(`${name}\\.safetensors`), ...parts);
  }
});

test("a header length past the end of the file, or past 2^53, is refused before anything is allocated", () => {
  refuses(() => openSafetensors(write("long.safetensors", good(), data, 10_000n)), /header length/, /found 10000/);
  refuses(() => openSafetensors(write("huge.safetensors", good(), data, 0xffff_ffff_ffff_ffffn)), /header length/);
});

test("truncated, empty, absent, JSON-less files and LFS pointers are named", () => {
  const cut = write("cut.safetensors", good(), data);
  truncateSync(cut, 100);
  refuses(() => openSafetensors(cut), /cut\.safetensors/);
  const empty = join(dir, "empty.safetensors");
  writeFileSync(empty, "");
  refuses(() => openSafetensors(empty), /at least 8 bytes, found 0 bytes/);
  refuses(() => openSafetensors(join(dir, "absent.safetensors")), /absent\.safetensors/, /no such file/);
  refuses(() => openSafetensors(dir), /regular file|EISDIR/);
  refuses(() => openSafetensors(write("text.safetensors", "{oops", data)), /header: expected JSON/);
  refuses(() => openSafetensors(write("array.safetensors", [1], data)), /JSON object/);
  const pointer = join(dir, "lfs.safetensors");
  writeFileSync(pointer, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  refuses(() => openSafetensors(pointer), /Git LFS pointer/);
});

test("the least of a file is eight bytes, the most of a header what follows them", () => {
  const file = (headerBytes: number, rest: number) => {
    const bytes = Buffer.alloc(8 + rest, " ");
    bytes.writeBigUInt64LE(BigInt(headerBytes));
    const path = join(dir, "least.safetensors");
    writeFileSync(path, bytes);
    return path;
  };
  refuses(() => openSafetensors(file(0, 0)), /header: expected JSON/);
  refuses(() => openSafetensors(file(1, 0)), /header length: expected at most 0 in a file of 8 bytes, found 1/);
  refuses(() => openSafetensors(file(4, 4)), /header: expected JSON/);
  refuses(() => openSafetensors(file(5, 4)), /header length: expected at most 4 in a file of 12 bytes, found 5/);
});

test("a header may fill its file, and nothing may come before or after what it says", () => {
  const empty = openSafetensors(write("none.safetensors", {}, data.subarray(0, 0)));
  assert.deepEqual([...empty.names()], []);
  empty.close();
  empty.close(); // once is enough
  const scalar = { dtype: "U8", shape: [], data_offsets: [31, 32] };
  const nothing = { dtype: "F32", shape: [0, 4], data_offsets: [7, 7] };
  const source = openSafetensors(write("edges.safetensors", { scalar, nothing }, data));
  assert.deepEqual(source.get("scalar", []).bytes(), Uint8Array.of(31));
  assert.deepEqual(source.get("nothing", [0, 4]).bytes(), new Uint8Array(0));
  for (const shape of [[1], [4, 0], [0], [0, 4, 1]]) refuses(() => source.get("nothing", shape), /found \[0, 4\]/);
  source.close();
  const shown = "x".repeat(200);
  refuses(
    () => openSafetensors(write("shown.safetensors", { a: shown }, data)),
    /found x{97}\.\.\.$|found x{97}\.\.\.\D/,
  );
  const short = "y".repeat(100);
  refuses(() => openSafetensors(write("short.safetensors", { a: short }, data)), /found y{100}(?!\.\.\.)/);
});

test("tensors behind 4 GiB of others are found; a header has its limit in files however long", () => {
  const at = 2 ** 32 + 16;
  const header = { far: { dtype: "U8", shape: [32], data_offsets: [at, at + 32] } };
  const path = write("far.safetensors", header, data.subarray(0, 0));
  const start = 8 + JSON.stringify(header).length;
  truncateSync(path, start + at + 32);
  const fd = openSync(path, "r+");
  writeSync(fd, data, 0, 32, start + at);
  closeSync(fd);
  const source = openSafetensors(path);
  assert.deepEqual(source.get("far").bytes(), data);
  assert.equal(source.get("far").file?.offset, start + at);
  source.close();
  const long = write("long-header.safetensors", good(), data, 100_000_001n);
  truncateSync(long, 2 ** 28);
  refuses(() => openSafetensors(long), /header length: expected at most 100000000 in a file of 268435456 bytes/);
});

test("a file that shrinks after it was opened gives an error, not garbage", () => {
  const path = write("shrinks.safetensors", good(), data);
  const source = openSafetensors(path);
  truncateSync(path, 60);
  refuses(() => source.get("b").bytes(), /tensor b/, /shrunk/);
  source.close();
});

test("shards are found through their index; a missing shard or tensor is named", () => {
  write("s-1.safetensors", { a: good().a }, data.subarray(0, 24));
  write("s-2.safetensors", { b: { ...good().b!, data_offsets: [0, 8] } }, data.subarray(24));
  const index = join(dir, "model.safetensors.index.json");
  const writeIndex = (map: unknown) => writeFileSync(index, JSON.stringify({ weight_map: map }));

  writeIndex({ a: "s-1.safetensors", b: "s-2.safetensors" });
  const source = openShardedSafetensors(index);
  assert.deepEqual(source.get("a").bytes(), data.subarray(0, 24));
  assert.deepEqual(source.get("b").bytes(), data.subarray(24));
  source.close();
  assert.deepEqual(openFilesUnder(dir), []);

  write("s-both.safetensors", good(), data);
  writeIndex({ a: "s-both.safetensors", b: "s-both.safetensors" });
  const both = openShardedSafetensors(index);
  assert.ok(openFilesUnder(dir).length <= 1, "a shard is opened once");
  both.close();
  assert.deepEqual(openFilesUnder(dir), []);

  writeIndex({ a: "s-1.safetensors", b: "s-3.safetensors" });
  refuses(() => openShardedSafetensors(index), /s-3\.safetensors/, /index\.json names it/, /half-copied/);
  assert.deepEqual(openFilesUnder(dir), [], "one that fails leaves none open");
  writeIndex({ a: "s-1.safetensors", b: "s-1.safetensors" });
  refuses(() => openShardedSafetensors(index), /s-1\.safetensors/, /tensor b/);
  for (const shard of ["../s-1.safetensors", "..", "", 7]) {
    writeIndex({ a: shard });
    refuses(() => openShardedSafetensors(index), /weight_map of tensor a/);
  }
  writeIndex([]);
  refuses(() => openShardedSafetensors(index), /weight_map/);
});

test("3,000 fuzzed headers load or are refused; none crashes or allocates what it claims", () => {
  // A small linear congruential generator: the same headers every time.
  let state = 12345;
  const random = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % n;
  };
  const numbers = [0, 1, 2, 3, 8, 24, 32, 33, -1, 1.5, 2 ** 31, 2 ** 53, 1e300, null, "4", [1], true];
  const path = join(dir, "fuzz.safetensors");
  let loaded = 0;
  for (let i = 0; i < 3000; i++) {
    const header = good() as Record<string, unknown>;
    const tensor = header[random(2) === 0 ? "a" : "b"] as Record<string, unknown>;
    const odd = () => numbers[random(numbers.length)];
    switch (random(6)) {
      case 0:
        tensor.shape = Array.from({ length: random(4) }, odd);
        break;
      case 1:
        tensor.data_offsets = Array.from({ length: 2 + random(2) }, odd);
        break;
      case 2:
        tensor.dtype = ["F64", "F16", "U8", "I4", "__proto__", "", 3][random(7)];
        break;
      case 3:
        header[["a", "b", "__metadata__", "__proto__x"][random(4)]!] = odd();
        break;
    }
    const json = Buffer.from(JSON.stringify(header));
    const bytes = Buffer.concat([Buffer.alloc(8), json, data]);
    bytes.writeBigUInt64LE(BigInt(random(20) === 0 ? random(400) : json.length));
    for (let flips = random(3); flips > 0; flips--) bytes[random(bytes.length)] = random(256);
    writeFileSync(path, random(10) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes);
    try {
      const source = openSafetensors(path);
      try {
        for (const name of source.names()) assert.equal(source.get(name).bytes().length, source.get(name).byteLength);
        loaded++;
      } finally {
        source.close();
      }
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
    }
  }
  assert.ok(loaded > 150 && loaded < 2850, `${loaded} of 3,000 loaded`);
});
