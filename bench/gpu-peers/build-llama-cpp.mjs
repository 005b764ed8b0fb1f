// llama.cpp's two benchmark programs, compiled from its source for the GPU here and nothing else of it: minutes on 16 cores.
// A source packed for travel (scripts/gpu-pack.sh SOURCE) has only the parts these programs need.

import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";

const OFF = [
  "LLAMA_BUILD_TESTS",
  "LLAMA_BUILD_EXAMPLES",
  "LLAMA_BUILD_SERVER",
  "LLAMA_BUILD_APP",
  "LLAMA_BUILD_UI",
  "LLAMA_OPENSSL",
  "GGML_CUDA_FA_ALL_QUANTS",
];

/** `arch`: as CMake names it, "90a-real"; null builds for the CPU. */
export async function buildLlamaCpp(source, build, arch) {
  const gpu = arch === null ? [] : ["-DGGML_CUDA=ON", `-DCMAKE_CUDA_ARCHITECTURES=${arch}`];
  const flags = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", ...gpu, ...OFF.map((name) => `-D${name}=OFF`)];
  const start = performance.now();
  await cmake(["-S", source, "-B", build, ...flags]);
  const targets = ["--target", "llama-bench", "llama-batched-bench"];
  await cmake(["--build", build, "-j", String(availableParallelism()), ...targets]);
  console.error(`llama.cpp is built in ${build} (${Math.round((performance.now() - start) / 1000)} s)`);
}

function cmake(args) {
  return new Promise((resolve, reject) => {
    const child = spawn("cmake", args, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout.on("data", (data) => (said += data));
    child.stderr.on("data", (data) => (said += data));
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`cmake ${args[0]} ended with ${code}:\n${said.slice(-2000)}`));
    });
  });
}
