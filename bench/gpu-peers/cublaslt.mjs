// Our tile kernel beside cuBLASLt on one GPU: bf16 weights, f32 results, the products of a prompt.
//   node bench/gpu-peers/cublaslt.mjs [--library PATH] [--shapes 6144x4096,...] [--tokens 128,256,...]
// For each matrix and number of tokens: our time (gate and up: with the activation fused), cuBLASLt's best time among its first choices, with any
// way to sum and of those that give our bits, and what the activation costs by itself, which cuBLASLt would leave to another kernel. Every
// choice that does not split K is compared with our result, bit for bit, on numbers of widely spread exponents.
// Results are added to what is there (accumulate, beta = 1) for the output and down projections, as in a model.

import { parseArgs } from "node:util";
import { CudaDevice } from "../../dist/src/device/cuda/cuda-device.js";
import { check, openLibrary } from "../../dist/src/device/cuda/driver/abi.js";
import { CudaWeight } from "../../dist/src/device/cuda/tensor.js";

const { values } = parseArgs({
  options: {
    library: { type: "string" },
    shapes: {
      type: "string",
      default: "2048x2048,3072x2048,16384x2048,2048x8192,6144x4096,4096x4096,28672x4096,4096x14336",
    },
    tokens: { type: "string", default: "128,256,512,1024,4096,8192" },
  },
});
const SHAPES = values.shapes.split(",").map((shape) => shape.split("x").map(Number));
const TOKENS = values.tokens.split(",").map(Number);
const CHOICES = 8;
const WORKSPACE = 32 * 2 ** 20;
/** Tokens whose results are compared, spread over all. */
const COMPARED = 48;

const TABLE = {
  version: ["cublasLtGetVersion"],
  create: ["cublasLtCreate", "buf"],
  descCreate: ["cublasLtMatmulDescCreate", "buf", "i32", "i32"],
  descSet: ["cublasLtMatmulDescSetAttribute", "addr", "i32", "buf", "u64"],
  layoutCreate: ["cublasLtMatrixLayoutCreate", "buf", "i32", "u64", "u64", "u64"],
  preferenceCreate: ["cublasLtMatmulPreferenceCreate", "buf"],
  preferenceSet: ["cublasLtMatmulPreferenceSetAttribute", "addr", "i32", "buf", "u64"],
  choose: [
    "cublasLtMatmulAlgoGetHeuristic",
    "addr",
    "addr",
    "addr",
    "addr",
    "addr",
    "addr",
    "addr",
    "i32",
    "buf",
    "buf",
  ],
  algoGet: ["cublasLtMatmulAlgoConfigGetAttribute", "buf", "i32", "buf", "u64", "buf"],
  matmul: [
    "cublasLtMatmul",
    "addr",
    "addr",
    "buf",
    "addr",
    "addr",
    "addr",
    "addr",
    "buf",
    "addr",
    "addr",
    "addr",
    "addr",
    "buf",
    "addr",
    "u64",
    "addr",
  ],
};
const F32 = 0;
const BF16 = 14;
const COMPUTE_F32 = 68;
const lt = openLibrary(
  values.library ? [values.library] : ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
  TABLE,
);

const device = new CudaDevice();
const { runtime } = device;
const { context } = runtime;
const { driver, stream } = context;
console.log(`${device.info.description}, cuBLASLt ${lt.version()}`);

const out64 = new BigUint64Array(1);
function made(status, what) {
  if (status !== 0) throw new Error(`${what} gave ${status}`);
  return Number(out64[0]);
}
const handle = made(lt.create(out64), "cublasLtCreate");
const workspace = context.alloc(WORKSPACE, "workspace");
const layout = (type, rows, cols) => made(lt.layoutCreate(out64, type, rows, cols, rows), "cublasLtMatrixLayoutCreate");

/** Preferences: any algorithm, and those that sum K in one piece. */
const [anyWay, onePiece] = [7, 0].map((schemes) => {
  const preference = made(lt.preferenceCreate(out64), "cublasLtMatmulPreferenceCreate");
  made(lt.preferenceSet(preference, 1, new BigUint64Array([BigInt(WORKSPACE)]), 8), "MAX_WORKSPACE_BYTES");
  made(lt.preferenceSet(preference, 3, new Uint32Array([schemes]), 4), "REDUCTION_SCHEME_MASK");
  return preference;
});
const product = made(lt.descCreate(out64, COMPUTE_F32, F32), "cublasLtMatmulDescCreate");
made(lt.descSet(product, 3, new Int32Array([1]), 4), "TRANSA");

/** bf16 numbers of exponents spread over 2^-12 to 2^11, as bits and as f32; a drawn block of odd length repeated. */
function draw(count, spread) {
  const bits = new Uint16Array(count);
  const block = Math.min(count, (1 << 20) - 3);
  let h = 12345 + count;
  for (let i = 0; i < block; i++) {
    h = (Math.imul(h, 1664525) + 1013904223) | 0;
    const exponent = 127 + (spread ? ((h >>> 9) % 24) - 12 : -5 + ((h >>> 9) % 4));
    bits[i] = ((h >>> 16) & 0x8000) | (exponent << 7) | ((h >>> 24) & 0x7f);
  }
  for (let at = block; at < count; at *= 2) bits.copyWithin(at, 0, Math.min(at, count - at));
  return bits;
}
function widened(bits) {
  const words = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) words[i] = bits[i] << 16;
  return new Float32Array(words.buffer);
}

function upload(bytes, what) {
  const address = context.alloc(bytes.byteLength, what);
  runtime.upload(address, new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return address;
}
function copied(address, bytes) {
  const copy = context.alloc(bytes, "a copy");
  check(driver, driver.copyWithin(copy, address, bytes, stream), "copyWithin");
  return copy;
}

/** Microseconds of one of `count` runs captured as a graph: the median of five replays. */
function graphTime(count, run) {
  device.synchronize();
  check(driver, driver.captureBegin(stream, 2), "captureBegin");
  for (let i = 0; i < count; i++) run(i);
  check(driver, driver.captureEnd(stream, out64), "captureEnd");
  const graph = Number(out64[0]);
  check(driver, driver.graphInstantiate(out64, graph, 0), "graphInstantiate");
  const executable = Number(out64[0]);
  const times = Array.from({ length: 6 }, () =>
    device.time(() => check(driver, driver.graphLaunch(executable, stream), "graphLaunch")),
  );
  driver.graphExecDestroy(executable);
  driver.graphDestroy(graph);
  return (1000 * times.slice(1).sort((a, b) => a - b)[2]) / count;
}

/** Results of some tokens, as bits. */
function sampled(address, n, rows) {
  const count = Math.min(COMPARED, n);
  const bits = new Uint32Array(count * rows);
  for (let i = 0; i < count; i++) {
    const token = Math.floor((i * (n - 1)) / Math.max(1, count - 1));
    runtime.download(new Uint8Array(bits.buffer, 4 * i * rows, 4 * rows), address + 4 * token * rows);
  }
  return bits;
}
/** How many numbers differ, and by which share of the largest at most. */
function differing(a, b) {
  const [x, y] = [new Float32Array(a.buffer), new Float32Array(b.buffer)];
  let count = 0;
  let far = 0;
  let top = 0;
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i]) continue;
    count++;
    far = Math.max(far, Math.abs(x[i] - y[i]));
    top = Math.max(top, Math.abs(x[i]));
  }
  return { count, far: far / (top || 1) };
}

const most = Math.max(...TOKENS);
for (const cols of new Set(SHAPES.map((shape) => shape[1]))) {
  const xBits = draw(most * cols, true);
  const x = device.loadTensor(widened(xBits), most, cols);
  const xRows = upload(xBits, "x");
  for (const [rows] of SHAPES.filter((shape) => shape[1] === cols)) {
    const bits = draw(rows * cols, true);
    const bytes = new Uint8Array(bits.buffer);
    const tensor = {
      name: "random",
      dtype: "bf16",
      shape: [rows, cols],
      file: null,
      byteLength: bytes.length,
      bytes: () => bytes,
    };
    const first = device.loadWeight([tensor]);
    device.synchronize();
    const copies = Math.min(8, Math.max(1, Math.ceil(240e6 / bytes.length)));
    const ours = [first];
    const plain = [upload(bits, "w")];
    while (ours.length < copies) {
      ours.push(new CudaWeight(copied(first.address, first.byteLength), rows, cols, first.format));
      plain.push(copied(plain[0], bytes.length));
    }
    const isGate = rows > 3 * cols;
    const accumulate = !isGate && rows !== 3072 && rows !== 6144;
    const out = device.allocTensor(most, rows);
    const gated = isGate ? device.allocTensor(most, rows / 2) : null;
    if (gated) runtime.operandOf(gated, 128, first.kind); // from here on the activation writes the operand of the down projection
    for (const n of TOKENS) {
      const layouts = [layout(BF16, cols, rows), layout(BF16, cols, n), layout(F32, rows, n)];
      const multiply = (algo, weight, beta) =>
        made(
          lt.matmul(
            handle,
            product,
            new Float32Array([1]),
            weight,
            layouts[0],
            xRows,
            layouts[1],
            new Float32Array([beta]),
            out.address,
            layouts[2],
            out.address,
            layouts[2],
            algo,
            workspace,
            WORKSPACE,
            stream,
          ),
          "cublasLtMatmul",
        );
      device.matmul(out, x, first, n);
      const expected = sampled(out.address, n, rows);
      const count = Math.max(copies, (n * rows * cols) / 1e9 > 20 ? 4 : 16);
      const timeOurs = () => {
        const run = (i) => {
          if (gated) device.gatedMatmul(gated, x, ours[i % copies], "silu", n);
          else device.matmul(out, x, ours[i % copies], n, { accumulate });
        };
        const all = () => {
          for (let i = 0; i < count; i++) run(i);
        };
        for (let i = 0; i < 2; i++) device.time(all); // the second time it becomes a graph
        const times = Array.from({ length: 5 }, () => (1000 * device.time(all)) / count);
        return times.sort((a, b) => a - b)[2];
      };
      let us = timeOurs();
      const found = new Map();
      for (const preference of [anyWay, onePiece]) {
        const results = new Uint8Array(96 * CHOICES);
        const returned = new Int32Array(1);
        const status = lt.choose(handle, product, ...layouts, layouts[2], preference, CHOICES, results, returned);
        if (status !== 0) continue;
        for (let i = 0; i < returned[0]; i++) {
          const algo = results.slice(96 * i, 96 * i + 64);
          const get = (attribute) => {
            const value = new Uint32Array(1);
            lt.algoGet(algo, attribute, value, attribute > 6 ? 2 : 4, new BigUint64Array(1));
            return value[0];
          };
          const name = `${get(0)}/t${get(1)}/s${get(6)}/c${get(8)}/o${get(5)}${get(4) ? "w" : ""}${get(2) > 1 ? `/k${get(2)}` : ""}`;
          if (found.has(name)) continue;
          try {
            multiply(algo, plain[0], 0);
            const { count: different, far } = differing(expected, sampled(out.address, n, rows));
            const time = graphTime(count, (k) => multiply(algo, plain[k % copies], accumulate ? 1 : 0));
            found.set(name, { name, time, different, far });
          } catch (error) {
            found.set(name, { name, time: Infinity, different: -1 });
            console.log(`  ${rows}x${cols} of ${n}: ${name}: ${error.message}`);
          }
        }
      }
      us = Math.min(us, timeOurs());
      const all = [...found.values()].sort((a, b) => a.time - b.time);
      const gate = device.createMap({ kind: "gate", activation: "silu" });
      const activation = gated
        ? graphTime(4, () => device.map(gated, gate, out.columns(0, rows / 2), out.columns(rows / 2, rows), n))
        : 0;
      const shown = ({ name, time, different, far }) =>
        `${time.toFixed(1)} (${name}${different === 0 ? ", our bits" : `: ${((100 * different) / expected.length).toFixed(1)} % differ, by ${far?.toExponential(0)}`})`;
      const best = all[0];
      const equal = all.find(({ different }) => different === 0);
      const tflops = (time) => ((2 * n * rows * cols) / time / 1e6).toFixed(0);
      console.log(
        `${rows}x${cols} of ${n}${first.isCut ? " [chains]" : ""}: ours ${us.toFixed(1)} us ${tflops(us)}T${gated ? ` gated; activation ${activation.toFixed(1)}` : ""}; ` +
          `best ${best ? `${shown(best)} ${tflops(best.time)}T` : "none"}; with our bits ${equal ? `${shown(equal)}, ours/it ${(us / (equal.time + activation)).toFixed(3)}` : "none"}`,
      );
      console.log(
        `    ${all.map(({ name, time, different }) => `${name} ${time.toFixed(1)}${different === 0 ? "=" : ""}`).join("  ")}`,
      );
    }
    for (const weight of ours) context.free(weight.address);
    for (const address of plain) context.free(address);
    device.free(out);
    if (gated) device.free(gated);
  }
  device.free(x);
  context.free(xRows);
}
device.close();
