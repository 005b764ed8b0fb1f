// What loading costs beside reading: random files of the 1b shape in the types that people download, each read whole and loaded in
// turns, every run in a process of its own.
//   node dist/bench/load-time.js [--folder /tmp] [--runs 5] [TYPE...]        TYPE: Q4_K_M, IQ2_XXS, IQ3_S, Q8_0, ...
// "read" is one thread reading the file into fresh memory from a warm page cache; "load" is from opening the file to a model that is
// ready (header, tokenizer, chat template, weights packed), without the start of the process; "again" is each once more at once in the
// same process, into memory that the machine has just handed out: on virtual machines that give free memory back to their host, the
// first touch of a page costs more than all else. Wall seconds, then CPU seconds of all threads; "held" is what the weights take in
// memory, in bits for each weight of the file.

import { spawnSync } from "node:child_process";
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bytesOf, type TensorDtype } from "../src/core/tensor.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { familyOf } from "../src/models/registry.js";
import { f32, text, u32, u64 } from "../test/support/gguf-writer.js";
import { FileWriter } from "./checkpoint/file-writer.js";
import { SHAPES, type TensorSpec, tensorsOf } from "./checkpoint/shapes.js";
import { makeVocabulary } from "./checkpoint/vocabulary.js";
import { metadataOf } from "./checkpoint/write-gguf.js";

const SHAPE = SHAPES["1b"]!;
const CODES: Partial<Record<TensorDtype, number>> = {
  ...{ f32: 0, f16: 1, q4_0: 2, q8_0: 8, q2_k: 10, q3_k: 11, q4_k: 12, q5_k: 13, q6_k: 14, iq2_xxs: 16, iq2_xs: 17 },
  ...{
    iq3_xxs: 18,
    iq1_s: 19,
    iq4_nl: 20,
    iq3_s: 21,
    iq2_s: 22,
    iq4_xs: 23,
    iq1_m: 29,
    bf16: 30,
    tq1_0: 34,
    tq2_0: 35,
  },
};

interface Times {
  readonly wall: number;
  readonly cpu: number;
  readonly heldBits?: number;
  readonly again?: Times;
}

/** What quantisers do: the embedding (also the head) and half of the value and down matrices at six bits in Q4_K_M, the table at more bits than the rest elsewhere. */
function typeOf({ gguf, rows }: TensorSpec, type: string, index: number): TensorDtype {
  if (rows === 0) return "f32";
  if (gguf === "token_embd.weight")
    return type === "F16" || type === "BF16" ? (type.toLowerCase() as TensorDtype) : "q6_k";
  if (type !== "Q4_K_M") return type.toLowerCase() as TensorDtype;
  return /attn_v|ffn_down/.test(gguf) && index % 2 === 0 ? "q6_k" : "q4_k";
}

/** Random bytes: what they mean does not matter to loading. */
function writeFile(file: string, type: string): void {
  const noise = Buffer.allocUnsafe(1 << 20);
  for (let i = 0, state = 1; i < noise.length; i += 4) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    noise.writeInt32LE(state, i);
  }
  const tensors = tensorsOf(SHAPE).map((tensor, index) => ({ ...tensor, type: typeOf(tensor, type, index) }));
  const sizes = tensors.map(({ type: own, rows, cols }) => bytesOf(own, Math.max(1, rows) * cols));
  const writer = new FileWriter(file);
  const metadata = metadataOf(type, SHAPE, "f16", makeVocabulary(SHAPE.vocab));
  writer.put(Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(metadata.length)]));
  for (const [key, value] of metadata) writer.put(Buffer.concat([text(key), value]));
  let offset = 0;
  tensors.forEach(({ gguf, rows, cols, type: own }, i) => {
    const dims = rows === 0 ? [cols] : [cols, rows];
    writer.put(Buffer.concat([text(gguf), u32(dims.length), ...dims.map(u64), u32(CODES[own]!), u64(offset)]));
    offset += Math.ceil(sizes[i]! / 32) * 32;
  });
  tensors.forEach((tensor, i) => {
    writer.pad(32);
    if (tensor.rows === 0) for (let c = 0; c < tensor.cols; c++) writer.put(f32(1));
    else
      for (let left = sizes[i]!; left > 0; left -= noise.length)
        writer.put(noise.subarray(0, Math.min(left, noise.length)));
  });
  writer.pad(32);
  writer.close();
}

function timed(run: () => number | undefined): Times {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const heldBits = run();
  const wall = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { wall, cpu: (user + system) / 1e6, ...(heldBits === undefined ? {} : { heldBits }) };
}

function read(path: string): undefined {
  const file = openSync(path, "r");
  const bytes = Buffer.allocUnsafeSlow(fstatSync(file).size);
  for (let at = 0; at < bytes.length; ) at += readSync(file, bytes, at, Math.min(bytes.length - at, 1 << 24), at);
  closeSync(file);
}

async function once(what: string, path: string): Promise<void> {
  if (what === "read") {
    const first = timed(() => read(path));
    globalThis.gc?.(); // the memory goes back to the system before the second time
    process.stdout.write(JSON.stringify({ ...first, again: timed(() => read(path)) }));
    return;
  }
  const first = await load(path);
  process.stdout.write(JSON.stringify({ ...first, again: await load(path) }));
}

async function load(path: string): Promise<Times> {
  const device = await openDevice({ device: "cpu", threads: availableParallelism() });
  let held = 0;
  const loadWeight = device.loadWeight.bind(device);
  device.loadWeight = (parts, options) => {
    const weight = loadWeight(parts, options);
    held += weight.byteLength;
    return weight;
  };
  const numWeights = tensorsOf(SHAPE).reduce((sum, { rows, cols }) => sum + rows * cols, 0);
  const times = timed(() => {
    const checkpoint = openCheckpoint(path);
    checkpoint.requireTokenizer();
    const family = familyOf(checkpoint.config, checkpoint.configFile);
    const source = checkpoint.openTensors();
    const config = family.parseConfig(checkpoint.config, checkpoint.configFile);
    family.load(config, { device, source, capacity: { maxTokens: 512, maxLogitRows: 32 }, quantize: "none" });
    source.close();
    return (held * 8) / numWeights;
  });
  device.close();
  return times;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}

function main(args: string[]): void {
  const take = (name: string, absent: string): string => {
    const at = args.indexOf(name);
    return at < 0 ? absent : args.splice(at, 2)[1]!;
  };
  const folder = take("--folder", "/tmp");
  const runs = Number(take("--runs", "5"));
  process.stdout.write(
    "type       MiB   bits  held   read s (cpu)  again s (cpu)   load s (cpu)  again s (cpu)  ratio  again\n",
  );
  for (const type of args.length > 0 ? args : ["Q4_K_M"]) {
    const path = join(folder, `load-time-${type}.gguf`);
    if (!existsSync(path)) writeFile(path, type);
    const run = (what: string): Times => {
      const { stdout, stderr } = spawnSync(process.execPath, [
        "--expose-gc",
        fileURLToPath(import.meta.url),
        "--once",
        what,
        path,
      ]);
      if (stdout.length === 0) throw new Error(`${what}: ${stderr}`);
      return JSON.parse(stdout.toString()) as Times;
    };
    run("read"); // warms the page cache
    const pairs = Array.from({ length: runs }, () => ({ read: run("read"), load: run("load") }));
    const columns = [
      pairs.map(({ read: first }) => first),
      pairs.map(({ read: first }) => first.again!),
      pairs.map(({ load: first }) => first),
      pairs.map(({ load: first }) => first.again!),
    ].map((all) => ({ wall: median(all.map(({ wall }) => wall)), cpu: median(all.map(({ cpu }) => cpu)) }));
    const tensors = tensorsOf(SHAPE).map((tensor, i) => ({ ...tensor, type: typeOf(tensor, type, i) }));
    const matrices = tensors.filter(({ rows }) => rows > 0);
    const stored = matrices.reduce((sum, { type: own, rows, cols }) => sum + bytesOf(own, rows * cols), 0);
    const count = matrices.reduce((sum, { rows, cols }) => sum + rows * cols, 0);
    const cells = [
      type.padEnd(8),
      (stored / 2 ** 20).toFixed(0).padStart(5),
      ((stored * 8) / count).toFixed(2).padStart(6),
      pairs[0]!.load.heldBits!.toFixed(2).padStart(5),
      ...columns.map(({ wall, cpu }) => `${wall.toFixed(2)} (${cpu.toFixed(2)})`.padStart(14)),
      ...columns.slice(2).map(({ wall }, i) => (wall / columns[i]!.wall).toFixed(2).padStart(6)),
    ];
    process.stdout.write(`${cells.join(" ")}\n`);
  }
}

if (process.argv[2] === "--once") await once(process.argv[3]!, process.argv[4]!);
else main(process.argv.slice(2));
