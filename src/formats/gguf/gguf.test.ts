import assert from "node:assert/strict";
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { f32, GGML_TYPE, text, typed, u32, u64, writeGguf } from "../../../test/support/gguf-writer.js";
import { FormatError } from "../../core/errors.js";
import { bytesOf, type TensorDtype } from "../../core/tensor.js";
import { openGguf } from "./gguf.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-gguf-"));
after(() => rmSync(folder, { recursive: true }));

function save(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
const matrix = { name: "m", dtype: "f32", shape: [2, 3], bytes: floats(1, 2, 3, 4, 5, 6) } as const;
const vector = { name: "v", dtype: "f32", shape: [2], bytes: floats(7, 8) } as const;

/** The file fails with a message that matches, and is a FormatError. */
function refuses(bytes: Uint8Array, pattern: RegExp): void {
  const path = save("bad.gguf", bytes);
  assert.throws(
    () => openGguf(path),
    (error: unknown) => {
      assert.ok(error instanceof FormatError, String(error));
      assert.match(error.message, pattern);
      assert.ok(error.message.includes(path), "the message names the file");
      return true;
    },
  );
}

test("metadata of every type, and tensors outermost first", () => {
  const value = (type: number, bytes: Uint8Array) => ({ type, bytes });
  const i64 = Buffer.alloc(8);
  i64.writeBigInt64LE(-5n);
  const f64 = Buffer.alloc(8);
  f64.writeDoubleLE(0.1);
  const nested = Buffer.concat([u32(9), u64(2), u32(0), u64(2), Buffer.of(1, 2), u32(8), u64(0)]);
  const metadata = {
    u8: value(0, Buffer.of(200)),
    i8: value(1, Buffer.of(200)),
    u16: value(2, Buffer.of(1, 2)),
    i16: value(3, Buffer.of(255, 255)),
    u32: 4_000_000_000,
    i32: value(5, Buffer.of(254, 255, 255, 255)),
    f32: 0.5,
    bool: true,
    string: "grüß",
    u64: value(10, u64(2 ** 40)),
    huge: value(10, u64(2n ** 63n)),
    i64: value(11, i64),
    f64: value(12, f64),
    strings: ["a", "", "ç"],
    numbers: [1, -2],
    nested: value(9, nested),
    long: "x".repeat(200_000),
  };
  for (const version of [2, 3]) {
    const path = save("ok.gguf", writeGguf(metadata, [matrix, vector], { version }));
    const { metadata: read, source } = openGguf(path);
    assert.deepEqual([...read.keys()], Object.keys(metadata));
    assert.deepEqual([...read.values()].slice(0, -1), [
      200,
      -56,
      513,
      -1,
      4_000_000_000,
      -2,
      0.5,
      true,
      "grüß",
      2 ** 40,
      2n ** 63n,
      -5,
      0.1,
      ["a", "", "ç"],
      [1, -2],
      [[1, 2], []],
    ]);
    assert.equal((read.get("long") as string).length, 200_000);
    assert.deepEqual([...source.names()], ["m", "v"]);
    const m = source.get("m", [2, 3]);
    assert.deepEqual(m.bytes(), matrix.bytes);
    assert.deepEqual(m.file, { path, offset: m.file!.offset });
    assert.equal(m.file!.offset % 32, 0);
    assert.deepEqual(source.get("v").bytes(), vector.bytes);
    assert.throws(() => source.get("w", [1]), /tensor w is missing; expected shape \[1\]/);
    assert.throws(() => source.get("m", [3, 2]), /expected shape \[3, 2\], found \[2, 3\]/);
  }
});

test("tensors of every type are known by its number", () => {
  const dtypes = Object.keys(GGML_TYPE) as TensorDtype[];
  const tensors = dtypes.map((dtype) => ({
    name: dtype,
    dtype,
    shape: [256],
    bytes: new Uint8Array(bytesOf(dtype, 256)),
  }));
  const { source } = openGguf(save("types.gguf", writeGguf({}, tensors)));
  assert.deepEqual(
    dtypes.map((dtype) => source.get(dtype).dtype),
    dtypes,
  );
});

test("one to four dimensions", () => {
  for (const shape of [[6], [2, 3], [1, 2, 3], [3, 1, 1, 2]]) {
    const { source } = openGguf(save("dims.gguf", writeGguf({}, [{ ...matrix, shape }])));
    assert.deepEqual([source.get("m").shape, source.get("m").bytes()], [shape, matrix.bytes]);
  }
});

test("alignment is the file's own", () => {
  const path = save("a.gguf", writeGguf({ "general.alignment": 256 }, [vector, matrix], { alignment: 256 }));
  const { source } = openGguf(path);
  assert.equal(source.get("m").file!.offset % 256, 0);
  assert.deepEqual(source.get("m").bytes(), matrix.bytes);
  for (const bad of [0, 3, 48, 2 ** 21])
    refuses(writeGguf({ "general.alignment": bad }, [vector]), /general.alignment/);
  refuses(
    writeGguf({ "general.alignment": "32" }, [vector]),
    /general.alignment: expected a power of two up to 1048576/,
  );
  const most = openGguf(save("a.gguf", writeGguf({ "general.alignment": 2 ** 20 }, [vector], { alignment: 2 ** 20 })));
  assert.deepEqual([most.source.get("v").file!.offset, most.source.get("v").bytes()], [2 ** 20, vector.bytes]);
  const least = openGguf(save("a.gguf", writeGguf({ "general.alignment": 1 }, [vector, matrix], { alignment: 1 })));
  assert.deepEqual(least.source.get("m").bytes(), matrix.bytes);
});

test("a split file opens from any of its parts", () => {
  const split = (no: number, total = 2) => ({ "split.no": no, "split.count": 2, "split.tensors.count": total });
  const first = save("s-00001-of-00002.gguf", writeGguf({ name: "first", ...split(0) }, [matrix]));
  const second = save("s-00002-of-00002.gguf", writeGguf(split(1), [vector]));
  for (const path of [first, second]) {
    const { metadata, source } = openGguf(path);
    assert.equal(metadata.get("name"), "first");
    assert.deepEqual(source.get("m").bytes(), matrix.bytes);
    assert.deepEqual(source.get("v").bytes(), vector.bytes);
    assert.equal(source.get("v").file!.path, second);
  }
  save("t-00001-of-00002.gguf", writeGguf(split(0), [matrix]));
  assert.throws(() => openGguf(join(folder, "t-00001-of-00002.gguf")), /t-00002-of-00002\.gguf.*no such file/);
  save("t-00002-of-00002.gguf", writeGguf(split(0), [vector]));
  assert.throws(() => openGguf(join(folder, "t-00001-of-00002.gguf")), /expected 1 of 2, found 0 of 2/);
  save("t-00002-of-00002.gguf", writeGguf(split(1), [matrix]));
  assert.throws(() => openGguf(join(folder, "t-00001-of-00002.gguf")), /tensor m: expected one of each name/);
  save("u-00001-of-00002.gguf", writeGguf(split(0, 5), [matrix]));
  save("u-00002-of-00002.gguf", writeGguf(split(1), [vector])); // the first part's count holds
  assert.throws(() => openGguf(join(folder, "u-00001-of-00002.gguf")), /tensors of all parts: expected 5, found 2/);
  assert.throws(() => openGguf(save("odd.gguf", writeGguf(split(0), [matrix]))), /NAME-00001-of-0000N\.gguf/);
});

test("files that are not GGUF, or of another version", () => {
  assert.throws(() => openGguf(join(folder, "absent.gguf")), /no such file/);
  assert.throws(() => openGguf(folder), FormatError);
  if (existsSync("/dev/null")) assert.throws(() => openGguf("/dev/null"), /expected a regular file, found a device/);
  refuses(new Uint8Array(0), /first bytes/);
  refuses(Buffer.from("not a gguf file at all"), /expected "GGUF", found "not "/);
  refuses(writeGguf({}, [matrix], { version: 1 }), /version: expected 2 or 3/);
  refuses(writeGguf({}, [matrix], { version: 3 << 24 }), /big-endian/);
  refuses(writeGguf({}, [matrix], { version: 1 << 24 }), /version: expected 2 or 3, little endian, found a big-endian/);
  refuses(writeGguf({}, [matrix], { version: (1 << 24) - 1 }), /found 16777215/);
  refuses(writeGguf({}, [matrix], { version: 4 }), /found 4/);
});

test("counts and lengths beyond the file are refused before anything is allocated", () => {
  const start = (tensors: number | bigint, keys: number | bigint) =>
    Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors), u64(keys)]);
  const huge = 2n ** 64n - 1n;
  const before = process.memoryUsage();
  refuses(start(huge, 0), /number of tensors: expected at most 0 in a file of 24 bytes, found/);
  refuses(start(0, huge), /number of metadata keys: expected at most/);
  refuses(Buffer.concat([start(0, 1), u64(huge), Buffer.alloc(64)]), /length of metadata key: expected at most/);
  const key = Buffer.concat([u64(1), Buffer.from("k")]);
  const array = (type: number, count: number | bigint) =>
    Buffer.concat([start(0, 1), key, u32(9), u32(type), u64(count)]);
  const tail = Buffer.alloc(64);
  refuses(Buffer.concat([array(4, huge), tail]), /length of metadata k: expected at most 16/);
  refuses(Buffer.concat([array(8, 9), tail]), /length of metadata k: expected at most 8/);
  refuses(Buffer.concat([array(9, 6), tail]), /length of metadata k: expected at most 5/);
  refuses(Buffer.concat([array(13, 1), tail]), /element type of metadata k/);
  refuses(Buffer.concat([start(0, 1), key, u32(77), tail]), /type of metadata k: expected a GGUF value type/);
  refuses(Buffer.concat([start(0, 1), key, u32(8), u64(2n ** 33n), tail]), /length of metadata k/);
  // Arrays within arrays, each the only element of the one before: bounded depth.
  const deep = Buffer.concat(Array.from({ length: 2000 }, () => Buffer.concat([u32(9), u64(1)])));
  refuses(Buffer.concat([start(0, 1), key, u32(9), deep]), /nested at most 4 deep/);
  // Arrays of empty arrays: the elements of the whole file are bounded.
  const wide = Buffer.alloc(12 * 2_000_000);
  for (let i = 0; i < wide.length; i += 12) wide.writeUInt32LE(9, i);
  refuses(Buffer.concat([start(0, 1), key, u32(9), u32(9), u64(2_000_000), wide.subarray(0, 1200)]), /at most 100/);
  const used = process.memoryUsage();
  const grown = used.arrayBuffers + used.heapUsed - before.arrayBuffers - before.heapUsed;
  assert.ok(grown < 100e6, `${grown} bytes`);
});

test("tensors that do not fit, overlap or repeat are refused", () => {
  refuses(writeGguf({}, [matrix, { ...vector, name: "m" }]), /tensor m: expected one of each name/);
  refuses(writeGguf({}, [matrix, { ...vector, offset: 0 }]), /tensor (m|v): offset: expected at least/);
  refuses(writeGguf({}, [matrix, { ...vector, offset: 36 }]), /expected a multiple of 32, found 36/);
  refuses(writeGguf({}, [matrix]).subarray(0, -1), / is incomplete: it has \d+ bytes, its header describes \d+\./);
  refuses(writeGguf({ a: 1, b: 2 }, []).subarray(0, -1), /more bytes of header/);
  const info = (dims: (number | bigint)[], type: number, offset: number | bigint) =>
    Buffer.concat([
      ...[Buffer.from("GGUF"), u32(3), u64(1), u64(0), u64(1), Buffer.from("t")],
      ...[u32(dims.length), ...dims.map(u64), u32(type), u64(offset), Buffer.alloc(256)],
    ]);
  refuses(info([], 0, 0), /number of dimensions: expected 1 to 4, found 0/);
  refuses(info([1, 1, 1, 1, 1], 0, 0), /number of dimensions/);
  refuses(info([2n ** 63n], 0, 0), /dimension: expected at most/);
  refuses(info([2n ** 32n, 2n ** 32n, 2n ** 32n], 0, 0), /at most \d+ bytes/);
  refuses(info([2 ** 52, 2 ** 52], 0, 0), /at most \d+ bytes/);
  refuses(info([0, 4], 0, 0), /whole blocks/);
  refuses(info([33, 1], 8, 0), /rows of whole blocks of 32 \(q8_0\)/);
  refuses(info([1000], 0, 0), /is incomplete/);
  refuses(info([4], 0, 2n ** 60n), /offset: expected at most/);
  refuses(info([256], 9, 0), /type of tensor t = q8_1 is not supported\. Supported: .*iq2_xxs/);
  refuses(info([256], 999, 0), /type of tensor t = 999 is not supported/);
  const refused = { 9: "q8_1", 15: "q8_k", 25: "i16", 28: "f64", 4: "4", 31: "31", 43: "43" };
  for (const [type, name] of Object.entries(refused))
    refuses(info([256], Number(type), 0), new RegExp(`type of tensor t = ${name} is not supported`));
});

test("strings of every length around the window that is read at once, alone and in long lists", () => {
  let state = 1;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const window = 1 << 16;
  const lengths = [window, window - 1, window + 1, window - 8, window - 7, 0, 1, 2 * window, 2 * window + 3];
  const make = (length: number) => String.fromCharCode(97 + random(26)).repeat(length);
  const metadata = {
    small: Array.from({ length: 9000 }, () => make(random(30))),
    ...Object.fromEntries(lengths.map((length) => [`s${length}`, make(length)])),
    mixed: Array.from({ length: 40 }, (_, i) =>
      make(lengths[i % lengths.length]! - (i % lengths.length > 4 ? 0 : random(40))),
    ),
    after: 7,
    ["k".repeat(70_000)]: -0.5,
  };
  const { metadata: read, source } = openGguf(save("strings.gguf", writeGguf(metadata, [matrix, vector])));
  assert.deepEqual(Object.fromEntries(read), metadata);
  assert.deepEqual(source.get("v").bytes(), vector.bytes);
});

/** The file's beginning, and nothing but a hole behind it. */
function sparse(bytes: Uint8Array, size: number): string {
  const path = save("sparse.gguf", bytes);
  truncateSync(path, size);
  return path;
}

test("limits of what a header may hold, however long its file", () => {
  const start = (tensors: number | bigint, keys: number | bigint) =>
    Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors), u64(keys)]);
  const key = text("k");
  const fails = (bytes: Uint8Array, size: number, pattern: RegExp) =>
    assert.throws(() => openGguf(sparse(bytes, size)), pattern);
  const huge = 2n ** 64n - 1n;
  // A header has at most 2^28 bytes, a tensor's entry at least 32, a key and its value 13.
  fails(start(huge, 0), 2 ** 29, new RegExp(`number of tensors: expected at most ${Math.floor((2 ** 28 - 8) / 32)}`));
  fails(
    start(0, huge),
    2 ** 29,
    new RegExp(`number of metadata keys: expected at most ${Math.floor((2 ** 28 - 16) / 13)}`),
  );
  fails(start(huge, 0), 1000, /number of tensors: expected at most 31 in /);
  fails(start(0, huge), 1000, /number of metadata keys: expected at most 75 in /);
  const string = Buffer.concat([start(0, 1), key, u32(8), u64(huge)]);
  fails(string, 2 ** 25, /length of metadata k: expected at most 16777216 in /);
  fails(string, 1000, new RegExp(`length of metadata k: expected at most ${1000 - string.length} in `));
  fails(Buffer.concat([start(0, 1), key, u32(8), u64(2n ** 32n + 1n)]), 1000, /found 4294967297/);
  const array = (count: number | bigint) => Buffer.concat([u32(9), u32(0), u64(count)]);
  fails(Buffer.concat([start(0, 1), key, array(huge)]), 2 ** 25, /length of metadata k: expected at most 16777216 in /);
  const two = Buffer.concat([start(0, 2), text("a"), array(10), Buffer.alloc(10), key, array(huge)]);
  fails(two, 2 ** 25, /length of metadata k: expected at most 16777206 in /);
  const typedArray = (type: number) => Buffer.concat([start(0, 1), key, u32(9), u32(type), u64(huge)]);
  for (const [type, bytes] of [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8].entries()) {
    const before = typedArray(type);
    fails(before, 1000, new RegExp(`expected at most ${Math.floor((1000 - before.length) / bytes)} in `));
  }
  // Four arrays within each other are read, five are not.
  const nested = (depth: number) =>
    Buffer.concat([
      ...Array.from({ length: depth }, () => Buffer.concat([u32(9), u64(1)])),
      u32(0),
      u64(1),
      Buffer.of(5),
    ]);
  const open = (depth: number) =>
    openGguf(save("nested.gguf", Buffer.concat([start(0, 1), key, u32(9), nested(depth)]))).metadata.get("k");
  assert.deepEqual(open(3), [[[[5]]]]);
  assert.throws(() => open(4), /nested at most 4 deep, found deeper/);
});

test("a tensor behind 4 GiB of others, and one that ends where its file does", () => {
  const at = 2 ** 32 + 64;
  const info = [text("t"), u32(1), u64(8), u32(24), u64(at)];
  const header = Buffer.concat([Buffer.from("GGUF"), u32(3), u64(1), u64(0), ...info]);
  const dataStart = Math.ceil(header.length / 32) * 32;
  const path = sparse(header, dataStart + at + 8);
  const fd = openSync(path, "r+");
  writeSync(fd, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), 0, 8, dataStart + at);
  closeSync(fd);
  const tensor = openGguf(path).source.get("t", [8]);
  assert.deepEqual(tensor.file, { path, offset: dataStart + at });
  assert.deepEqual(tensor.bytes(), Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  truncateSync(path, dataStart + at + 7);
  assert.throws(() => openGguf(path), /it has 4294967431 bytes, its header describes 4294967432/);
});

test("names are shown as far as they can be read", () => {
  const shown = (name: string) => {
    const path = save("names.gguf", writeGguf({}, [{ ...vector, name, offset: 1 }]));
    try {
      openGguf(path);
    } catch (error) {
      return /tensor (.*): offset/.exec((error as Error).message)![1];
    }
  };
  assert.equal(shown("n".repeat(80)), "n".repeat(80));
  assert.equal(shown("n".repeat(81)), `${"n".repeat(77)}...`);
});

test("duplicated metadata keys are refused", () => {
  const one = Buffer.concat([u64(1), Buffer.from("k"), typed(3)]);
  refuses(
    Buffer.concat([Buffer.from("GGUF"), u32(3), u64(0), u64(2), one, one]),
    /metadata k: expected one of each key/,
  );
});

test("3,000 damaged headers: a FormatError or a valid file, never anything else, never a large allocation", () => {
  const good = writeGguf(
    { "general.architecture": "llama", eps: 0.00001, tokens: ["a", "bc", "d"], types: [1, 2, 3], flag: false },
    [matrix, vector, { name: "q", dtype: "q4_0", shape: [2, 32], bytes: new Uint8Array(36) }],
  );
  let s = 42;
  const random = (below: number) => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return (s >>> 0) % below;
  };
  const edges = [u64(2n ** 64n - 1n), u64(2n ** 63n), u64(2n ** 53n), u64(2n ** 32n), u64(0), u32(2 ** 31), f32(NaN)];
  const path = join(folder, "fuzz.gguf");
  let opened = 0;
  let peak = 0;
  for (let round = 0; round < 3000; round++) {
    let bytes = Buffer.from(good);
    for (let change = random(4); change >= 0; change--) {
      const kind = random(4);
      const at = random(bytes.length);
      if (kind === 0) bytes[at] = random(256);
      else if (kind === 1) bytes[at]! ^= 1 << random(8);
      else if (kind === 2) edges[random(edges.length)]!.copy(bytes, at);
      else bytes = bytes.subarray(0, Math.max(1, at));
    }
    writeFileSync(path, bytes);
    try {
      const { source } = openGguf(path);
      for (const name of source.names()) source.get(name).bytes();
      opened++;
    } catch (error) {
      assert.ok(error instanceof FormatError, `round ${round}: ${error}`);
    }
    peak = Math.max(peak, process.memoryUsage().arrayBuffers);
  }
  assert.ok(opened > 30 && opened < 2700, `${opened} opened`);
  assert.ok(peak < 500e6, `peak ${peak}`);
});
