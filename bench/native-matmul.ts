// The native matmul against the machine's own peaks, measured in the same run. Minimum of many repetitions.
//   node dist/bench/native-matmul.js [threads] [filter]
// share = of the f32 or int8 peak (2 * n * rows * cols operations), or of memory bandwidth for weights that are read once.

import type { HostTensor, TensorDtype } from "../src/core/tensor.js";
import { BLOCK_OF, bytesOf } from "../src/core/tensor.js";
import { CpuDevice } from "../src/device/cpu/cpu-device.js";

const threads = Number(process.argv[2] ?? 1);
const filter = process.argv[3] ?? "";
const device = new CpuDevice({ threads });

const peaks = {
  float: device.measurePeak("float"),
  int8: device.measurePeak("int8"),
  memory: device.measurePeak("memory"),
};
console.log(device.info.description);
console.log(
  `peaks: f32 ${(peaks.float / 1e9).toFixed(0)} GFLOP/s, int8 ${(peaks.int8 / 1e9).toFixed(0)} GOP/s, memory ${(peaks.memory / 1e9).toFixed(1)} GB/s`,
);

const shapes: [rows: number, cols: number][] = [
  [576, 1536],
  [1536, 576],
  [8192, 2048],
  [2048, 8192],
  [49152, 576],
];
const dtypes: TensorDtype[] = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k"];

for (const dtype of dtypes) {
  for (const [rows, cols] of shapes) {
    if (!`${dtype} ${rows}x${cols}`.includes(filter)) continue;
    if ((rows === 49152 && dtype === "f32") || cols % BLOCK_OF[dtype][0] !== 0) continue;
    // Random codes, factors of zero: speed does not depend on them, and no number becomes subnormal or infinite.
    const bytes = new Uint8Array(bytesOf(dtype, rows * cols));
    const tensor: HostTensor = {
      ...{ name: dtype, dtype, shape: [rows, cols], file: null, byteLength: bytes.length },
      bytes: () => bytes,
    };
    // Enough copies that weights read once come from memory, as a model's do.
    const copies = process.env.HOT ? 1 : Math.min(64, Math.max(1, Math.ceil((128 << 20) / bytes.length)));
    const weights = Array.from({ length: copies }, () => device.loadWeight([tensor]));
    const x = device.loadTensor(new Float32Array(512 * cols).fill(0.5), 512, cols);
    const out = device.allocTensor(512, rows);
    const line = [`${dtype} ${rows}x${cols}`.padEnd(18)];
    for (const n of [1, 2, 4, 8, 16, 32, 64, 256, 512]) {
      const started = performance.now();
      let best = Number.POSITIVE_INFINITY;
      for (let i = 0; i < 3 * copies || (performance.now() - started < 150 && i < 2000); i++) {
        const from = process.hrtime.bigint();
        device.matmul(out, x, weights[i % copies]!, n);
        best = Math.min(best, Number(process.hrtime.bigint() - from) / 1e9);
        if (performance.now() - started > 3000) break;
      }
      const compute = (2 * n * rows * cols) / best / (dtype.startsWith("q") ? peaks.int8 : peaks.float);
      const memory = weights[0]!.byteLength / best / peaks.memory;
      line.push(
        `n=${n}: ${Math.round(best * 1e6)}us ${(100 * compute).toFixed(0)}%c ${n <= 32 ? `${(100 * memory).toFixed(0)}%m` : ""}`,
      );
    }
    console.log(line.join(" | "));
  }
}
device.close();
