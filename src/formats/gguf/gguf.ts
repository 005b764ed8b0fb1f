// GGUF v2 and v3: one file, or the parts of a split one, as metadata and tensors. Not what the metadata means: see gguf-config.ts.
//
//   file = "GGUF" | version | number of tensors | number of key-values | key-values | tensor infos | padding | data
//
// The header is checked whole when the file is opened (every tensor lies inside the file, aligned, apart from the others);
// tensor data is read, or mapped by a device, when it is needed.

import { closeSync, fstatSync, openSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FormatError } from "../../core/errors.js";
import { alignUp } from "../../core/math.js";
import { BLOCK_OF, type HostTensor, type TensorDtype, type TensorSource } from "../../core/tensor.js";
import { requireRegularFile } from "../json-file.js";
import { elementsOf, fileTensor, TensorTable } from "../tensor-views.js";
import { GgufReader } from "./gguf-reader.js";

export type GgufMetadata = ReadonlyMap<string, unknown>;

export interface GgufFile {
  readonly path: string;
  /** Of the first part, when the file is split. */
  readonly metadata: GgufMetadata;
  /** Tensors under their GGUF names, shapes outermost first. */
  readonly source: TensorSource;
}

/** Tensor types by their number; those that Pagoda does not decode are there to be refused by name. */
const TYPES: Readonly<Record<number, string>> = {
  0: "f32",
  1: "f16",
  2: "q4_0",
  3: "q4_1",
  6: "q5_0",
  7: "q5_1",
  8: "q8_0",
  9: "q8_1",
  10: "q2_k",
  11: "q3_k",
  12: "q4_k",
  13: "q5_k",
  14: "q6_k",
  15: "q8_k",
  16: "iq2_xxs",
  17: "iq2_xs",
  18: "iq3_xxs",
  19: "iq1_s",
  20: "iq4_nl",
  21: "iq3_s",
  22: "iq2_s",
  23: "iq4_xs",
  24: "i8",
  25: "i16",
  26: "i32",
  27: "i64",
  28: "f64",
  29: "iq1_m",
  30: "bf16",
  34: "tq1_0",
  35: "tq2_0",
  39: "mxfp4",
  40: "nvfp4",
  41: "q1_0",
  42: "q2_0",
};

/** More than any file holds: sums of offsets and lengths stay exact. */
const MAX_DATA_BYTES = 2 ** 52;
const MAX_DIMS = 4;
const MIN_TENSOR_INFO_BYTES = 8 + 4 + 8 + 4 + 8;
const MIN_KEY_VALUE_BYTES = 8 + 4 + 1;

interface Part {
  readonly path: string;
  readonly metadata: GgufMetadata;
  readonly tensors: readonly HostTensor[];
}

/** Opens a .gguf file; a part of a split one opens all its parts. */
export function openGguf(path: string): GgufFile {
  const opened = readPart(path);
  const numParts = opened.metadata.get("split.count") ?? 1;
  const parts = numParts === 1 || numParts === 0 ? [opened] : readAllParts(opened);
  const source = new TensorTable(parts[0]!.path);
  for (const part of parts) for (const tensor of part.tensors) source.add(tensor);
  return { path: parts[0]!.path, metadata: parts[0]!.metadata, source };
}

/** Parts are named NAME-00001-of-00003.gguf and lie in one folder. */
function readAllParts(opened: Part): Part[] {
  const fail = (what: string, expected: string, found: unknown) =>
    new FormatError("file_corrupt", { file: opened.path, what, expected, found: String(found) });
  const name = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(basename(opened.path));
  if (name === null) throw fail("name of a split file", "NAME-00001-of-0000N.gguf", basename(opened.path));
  const [, stem, , total] = name;
  const numParts = Number(total);
  if (opened.metadata.get("split.count") !== numParts) {
    throw fail("split.count", `${numParts} as in the file's name`, opened.metadata.get("split.count"));
  }
  const parts: Part[] = [];
  for (let i = 0; i < numParts; i++) {
    const path = join(dirname(opened.path), `${stem}-${String(i + 1).padStart(5, "0")}-of-${total}.gguf`);
    const part = path === opened.path ? opened : readPart(path);
    if (part.metadata.get("split.no") !== i || part.metadata.get("split.count") !== numParts) {
      const { metadata } = part;
      const found = `${metadata.get("split.no")} of ${metadata.get("split.count")}`;
      throw new FormatError("file_corrupt", { file: path, what: "split", expected: `${i} of ${numParts}`, found });
    }
    parts.push(part);
  }
  const expected = parts[0]!.metadata.get("split.tensors.count");
  const found = parts.reduce((sum, part) => sum + part.tensors.length, 0);
  if (typeof expected === "number" && expected !== found) throw fail("tensors of all parts", `${expected}`, found);
  return parts;
}

function readPart(path: string): Part {
  let fd: number;
  try {
    requireRegularFile(path);
    fd = openSync(path, "r");
  } catch (error) {
    if (error instanceof FormatError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    const reason = code === "ENOENT" ? "there is no such file." : `it cannot be read (${code}).`;
    throw new FormatError("model_not_found", { path, reason });
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw new FormatError("model_not_found", { path, reason: "it is not a file." });
    return readHeader(new GgufReader(fd, path, stat.size));
  } finally {
    closeSync(fd);
  }
}

function readHeader(reader: GgufReader): Part {
  const magic = reader.u32("first bytes");
  if (magic !== 0x46554747)
    throw reader.corrupt("first bytes", '"GGUF"', `${firstBytes(magic)}: this is not a GGUF file`);
  const version = reader.u32("version");
  if (version !== 2 && version !== 3) {
    const found = version >= 1 << 24 ? "a big-endian file" : version;
    throw reader.corrupt("version", "2 or 3, little endian", found);
  }
  const numTensors = reader.size("number of tensors", Math.floor(reader.bytesLeft / MIN_TENSOR_INFO_BYTES));
  const numKeys = reader.size("number of metadata keys", Math.floor(reader.bytesLeft / MIN_KEY_VALUE_BYTES));

  const metadata = new Map<string, unknown>();
  for (let i = 0; i < numKeys; i++) {
    const key = reader.string("metadata key");
    if (metadata.has(key)) throw reader.corrupt(`metadata ${show(key)}`, "one of each key", "a second one");
    metadata.set(key, reader.value(`metadata ${show(key)}`));
  }
  const infos: TensorInfo[] = [];
  for (let i = 0; i < numTensors; i++) infos.push(readTensorInfo(reader));

  const alignment = metadata.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || !Number.isInteger(Math.log2(alignment)) || alignment > 1 << 20) {
    throw reader.corrupt("general.alignment", "a power of two up to 1048576", String(alignment));
  }
  const dataStart = alignUp(reader.position, alignment);
  return { path: reader.path, metadata, tensors: placeTensors(reader, infos, dataStart, alignment) };
}

function firstBytes(magic: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(magic);
  return JSON.stringify(bytes.toString("latin1"));
}

interface TensorInfo {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** From the start of the data. */
  readonly offset: number;
}

function readTensorInfo(reader: GgufReader): TensorInfo {
  const name = reader.string("tensor name");
  const what = `tensor ${show(name)}`;
  const numDims = reader.u32(`${what}: number of dimensions`);
  if (numDims < 1 || numDims > MAX_DIMS) {
    throw reader.corrupt(`${what}: number of dimensions`, `1 to ${MAX_DIMS}`, numDims);
  }
  const shape: number[] = [];
  for (let i = 0; i < numDims; i++) shape.unshift(reader.size(`${what}: dimension`, Number.MAX_SAFE_INTEGER));
  const type = reader.u32(`${what}: type`);
  const typeName = TYPES[type];
  if (typeName === undefined || !Object.hasOwn(BLOCK_OF, typeName)) {
    throw new FormatError("unsupported_model_option", {
      file: reader.path,
      param: `type of ${what}`,
      value: typeName ?? type,
      known: Object.values(TYPES)
        .filter((known) => Object.hasOwn(BLOCK_OF, known))
        .join(", "),
    });
  }
  const dtype = typeName as TensorDtype;
  const [blockElements, blockBytes] = BLOCK_OF[dtype];
  if (shape.some((dim) => dim === 0) || shape.at(-1)! % blockElements !== 0) {
    throw reader.corrupt(`${what}: shape`, `rows of whole blocks of ${blockElements} (${dtype})`, `[${shape}]`);
  }
  const byteLength = (elementsOf(shape) / blockElements) * blockBytes;
  if (byteLength > MAX_DATA_BYTES)
    throw reader.corrupt(`${what}: shape`, `at most ${MAX_DATA_BYTES} bytes`, `[${shape}] of ${dtype}`);
  const offset = reader.size(`${what}: offset`, MAX_DATA_BYTES);
  return { name, dtype, shape, byteLength, offset };
}

function placeTensors(reader: GgufReader, infos: readonly TensorInfo[], dataStart: number, alignment: number) {
  const ordered = [...infos].sort((a, b) => a.offset - b.offset);
  let end = 0;
  for (const info of ordered) {
    const what = `tensor ${show(info.name)}: offset`;
    if (info.offset % alignment !== 0) throw reader.corrupt(what, `a multiple of ${alignment}`, info.offset);
    if (info.offset < end) throw reader.corrupt(what, `at least ${end}, past the tensor before it`, info.offset);
    end = info.offset + info.byteLength;
  }
  if (end > 0 && dataStart + end > reader.fileBytes) {
    const [file, found, expected] = [reader.path, reader.fileBytes, dataStart + end];
    throw new FormatError("file_incomplete", { file, found, expected });
  }
  return infos.map((info) => fileTensor(info.name, info.dtype, info.shape, reader.path, dataStart + info.offset));
}

/** A name from a file, short enough for a message. */
function show(name: string): string {
  return name.length > 80 ? `${name.slice(0, 77)}...` : name;
}
