// safetensors: a checkpoint as one file, or as shards named by model.safetensors.index.json, behind the TensorSource interface.
//
//   file = u64 header length (little endian) | header, JSON: name -> {dtype, shape, data_offsets} | data
//
// A header is checked whole before any tensor is read: nothing is allocated because a header says so. Tensors are read when
// asked for, at 64-bit positions, and carry their place in the file so that a native device can map them instead.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FormatError } from "../../core/errors.js";
import type { HostTensor, TensorDtype, TensorSource } from "../../core/tensor.js";
import { isRecord, readJsonObject, requireRegularFile } from "../json-file.js";
import { readFully } from "../read-fully.js";

/** The format's own limit on a header. */
const MAX_HEADER_BYTES = 100_000_000;

/** Bytes per element of every dtype a file may name. */
const DTYPE_BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  F8_E4M3: 1,
  F8_E5M2: 1,
  F8_E8M0: 1,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
};

/** The ones a model can use. A file may hold others (a mask of booleans, say) as long as no model asks for them. */
const USABLE: Readonly<Record<string, TensorDtype>> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
  F8_E4M3: "f8_e4m3",
  F8_E5M2: "f8_e5m2",
  I64: "i64",
  I32: "i32",
  I8: "i8",
  U8: "u8",
};

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Absolute position in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

interface SafetensorsFile {
  readonly path: string;
  readonly fd: number;
  readonly entries: ReadonlyMap<string, Entry>;
}

/** Opens one .safetensors file. */
export function openSafetensors(path: string): TensorSource {
  const file = openFile(path);
  return new SafetensorsSource(path, [file], new Map([...file.entries.keys()].map((name) => [name, file])));
}

/** Opens the shards that an index file names, all beside it. */
export function openShardedSafetensors(indexPath: string): TensorSource {
  const weightMap = readJsonObject(indexPath).weight_map;
  if (!isRecord(weightMap)) throw corrupt(indexPath, "weight_map", "an object of tensor name -> file name", weightMap);
  const files = new Map<string, SafetensorsFile>();
  const owners = new Map<string, SafetensorsFile>();
  try {
    for (const [name, shard] of Object.entries(weightMap)) {
      if (typeof shard !== "string" || shard === "" || shard !== basename(shard) || shard === "..") {
        throw corrupt(indexPath, `weight_map of tensor ${name}`, "the name of a file beside the index", shard);
      }
      let file = files.get(shard);
      if (file === undefined) {
        file = openFile(join(dirname(indexPath), shard), `${basename(indexPath)} names it`);
        files.set(shard, file);
      }
      if (!file.entries.has(name))
        throw corrupt(file.path, `tensor ${name}`, "in this shard by the index", "no such tensor");
      owners.set(name, file);
    }
    return new SafetensorsSource(indexPath, [...files.values()], owners);
  } catch (error) {
    for (const file of files.values()) closeSync(file.fd);
    throw error;
  }
}

class SafetensorsSource implements TensorSource {
  readonly path: string;
  readonly #files: readonly SafetensorsFile[];
  readonly #owners: ReadonlyMap<string, SafetensorsFile>;
  #isOpen = true;

  constructor(path: string, files: readonly SafetensorsFile[], owners: ReadonlyMap<string, SafetensorsFile>) {
    this.path = path;
    this.#files = files;
    this.#owners = owners;
  }

  has(name: string): boolean {
    return this.#owners.has(name);
  }

  get(name: string, shape?: readonly number[]): HostTensor {
    const file = this.#owners.get(name);
    if (file === undefined) {
      throw new FormatError("tensor_missing", { file: this.path, tensor: name, expected: shape?.join(", ") ?? "any" });
    }
    const entry = file.entries.get(name)!;
    if (shape !== undefined && !sameShape(shape, entry.shape)) {
      throw new FormatError("tensor_mismatch", {
        file: file.path,
        tensor: name,
        expected: `shape [${shape.join(", ")}]`,
        found: `[${entry.shape.join(", ")}]`,
      });
    }
    const dtype = USABLE[entry.dtype];
    if (dtype === undefined) {
      const expected = `a dtype of ${Object.keys(USABLE).join(", ")}`;
      throw new FormatError("tensor_mismatch", { file: file.path, tensor: name, expected, found: entry.dtype });
    }
    return {
      name,
      dtype,
      shape: entry.shape,
      file: { path: file.path, offset: entry.offset },
      byteLength: entry.byteLength,
      bytes: () => {
        if (!this.#isOpen) throw new Error(`${this.path} is closed`);
        return readExactly(file, name, entry);
      },
    };
  }

  names(): Iterable<string> {
    return this.#owners.keys();
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const file of this.#files) closeSync(file.fd);
  }
}

function openFile(path: string, why?: string): SafetensorsFile {
  let fd: number;
  try {
    requireRegularFile(path);
    fd = openSync(path, "r");
  } catch (error) {
    if (error instanceof FormatError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    const found = code === "ENOENT" ? "no such file; the folder may be half-copied" : String(code);
    throw new FormatError("file_corrupt", {
      file: path,
      what: "safetensors file",
      expected: why === undefined ? "a readable file" : `a readable file (${why})`,
      found,
    });
  }
  try {
    return { path, fd, entries: readHeader(path, fd) };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function readHeader(path: string, fd: number): Map<string, Entry> {
  const stat = fstatSync(fd);
  if (!stat.isFile()) throw corrupt(path, "safetensors file", "a regular file", "something else");
  const fileBytes = stat.size;
  const prefix = Buffer.alloc(8);
  if (fileBytes < 8 || readSync(fd, prefix, 0, 8, 0) < 8) {
    throw corrupt(path, "safetensors file", "at least 8 bytes", `${fileBytes} bytes`);
  }
  if (prefix.toString("latin1") === "version ") {
    throw corrupt(path, "safetensors file", "tensors", "a Git LFS pointer; fetch the file itself (git lfs pull)");
  }
  const headerBytes = Number(prefix.readBigUInt64LE());
  const limit = Math.min(fileBytes - 8, MAX_HEADER_BYTES);
  if (headerBytes > limit) {
    throw corrupt(path, "header length", `at most ${limit} in a file of ${fileBytes} bytes`, headerBytes);
  }
  const text = Buffer.alloc(headerBytes);
  if (readSync(fd, text, 0, headerBytes, 8) < headerBytes)
    throw corrupt(path, "header", `${headerBytes} bytes`, "fewer");

  let header: unknown;
  try {
    header = JSON.parse(text.toString("utf8"));
  } catch (error) {
    throw corrupt(path, "header", "JSON", `${(error as Error).message}`);
  }
  if (!isRecord(header)) throw corrupt(path, "header", "a JSON object", header);

  const dataStart = 8 + headerBytes;
  const entries = new Map<string, Entry>();
  for (const [name, value] of Object.entries(header)) {
    if (name !== "__metadata__") entries.set(name, readEntry(path, name, value, dataStart, fileBytes));
  }
  checkNoOverlap(path, entries);
  return entries;
}

function readEntry(path: string, name: string, value: unknown, dataStart: number, fileBytes: number): Entry {
  const what = `tensor ${name}`;
  if (!isRecord(value)) throw corrupt(path, what, "an object with dtype, shape and data_offsets", value);
  const { dtype, shape, data_offsets: offsets } = value;

  const elementBytes = typeof dtype === "string" && Object.hasOwn(DTYPE_BYTES, dtype) ? DTYPE_BYTES[dtype]! : null;
  if (elementBytes === null) {
    throw corrupt(path, `${what}: dtype`, `one of ${Object.keys(DTYPE_BYTES).join(", ")}`, dtype);
  }

  if (!isSizes(shape)) throw corrupt(path, `${what}: shape`, "an array of whole numbers", shape);
  let byteLength = elementBytes;
  for (const dim of shape) byteLength *= dim;
  if (!Number.isSafeInteger(byteLength)) throw corrupt(path, `${what}: shape`, "less than 2^53 bytes", shape);

  const dataBytes = fileBytes - dataStart;
  if (!isSizes(offsets) || offsets.length !== 2 || offsets[0]! > offsets[1]! || offsets[1]! > dataBytes) {
    throw corrupt(path, `${what}: data_offsets`, `[begin, end] within the ${dataBytes} bytes of data`, offsets);
  }
  const [begin, end] = offsets as [number, number];
  if (end - begin !== byteLength) {
    throw corrupt(path, what, `${byteLength} bytes for ${dtype} [${shape.join(", ")}]`, `${end - begin}`);
  }
  return { dtype: dtype as string, shape, offset: dataStart + begin, byteLength };
}

function checkNoOverlap(path: string, entries: ReadonlyMap<string, Entry>): void {
  const ordered = [...entries].filter(([, entry]) => entry.byteLength > 0).sort(([, a], [, b]) => a.offset - b.offset);
  for (let i = 1; i < ordered.length; i++) {
    const [before, { offset, byteLength }] = ordered[i - 1]!;
    const [name, entry] = ordered[i]!;
    if (entry.offset < offset + byteLength) {
      throw corrupt(
        path,
        `tensor ${name}`,
        `bytes of its own from ${offset + byteLength}`,
        `${entry.offset}, inside ${before}`,
      );
    }
  }
}

function readExactly(file: SafetensorsFile, name: string, entry: Entry): Uint8Array {
  const bytes = new Uint8Array(entry.byteLength);
  const done = readFully(file.fd, bytes, entry.offset);
  if (done < bytes.length) {
    throw corrupt(file.path, `tensor ${name}`, `${bytes.length} bytes`, `${done}; the file has shrunk`);
  }
  return bytes;
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0);
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((dim, i) => dim === b[i]);
}

function corrupt(file: string, what: string, expected: string, found: unknown): FormatError {
  const shown = typeof found === "string" ? found : (JSON.stringify(found) ?? "nothing");
  return new FormatError("file_corrupt", {
    file,
    what,
    expected,
    found: shown.length > 100 ? `${shown.slice(0, 97)}...` : shown,
  });
}
