// llama.cpp built natively, through its own tools: llama-bench for a prefill, llama-batched-bench for decodes, llama-server for a
// mix of requests. Its strongest form: no wrapper of another language, kernels compiled for this very processor.

import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CONTEXT_LEN } from "./workload.mjs";

const PORT = 18_765;

/** `dir`: a build folder (holding bin/llama-bench) or the folder of the programs themselves. */
export function openLlamaCpp(dir, model) {
  const program = (name) => {
    const found = [join(dir, "bin", name), join(dir, "build", "bin", name), join(dir, name)].find((f) => existsSync(f));
    if (found === undefined) throw new Error(`${dir} holds no ${name}; build it: cmake --build build --target ${name}`);
    return found;
  };
  const run = (name, args) => {
    const { status, stdout, stderr } = spawnSync(program(name), args, { encoding: "utf8", maxBuffer: 2 ** 26 });
    if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr.slice(-500)}`);
    return stdout;
  };
  return { model, program, run };
}

export function llamaCpp({ model, program, run }, { threads, flashAttention }) {
  const common = ["-m", model, "-t", String(threads), "-fa", flashAttention ? "on" : "off"];
  return {
    name: "llama.cpp",

    /** Seconds of one prompt. Weights are loaded and a warm-up is run before the clock starts. */
    prefill(_prompts, len) {
      const out = run("llama-bench", [...common, "-p", String(len), "-n", "0", "-r", "1", "-o", "json"]);
      return len / JSON.parse(out)[0].avg_ts;
    },

    openDecode(_prompts, rows, steps) {
      const context = String(rows * (CONTEXT_LEN + steps) + 64);
      const sizes = ["-npp", String(CONTEXT_LEN), "-ntg", String(steps), "-npl", String(rows), "-c", context];
      const args = [...common, ...sizes, "-b", "2048", "-ub", "512", "--output-format", "jsonl"];
      return {
        run() {
          const line = run("llama-batched-bench", args)
            .split("\n")
            .find((text) => text.startsWith("{"));
          return JSON.parse(line).t_tg;
        },
        close() {},
      };
    },

    /** All requests at once against llama-server with a slot for each of `parallel`. A new server each time: nothing is cached. */
    async mix(requests, parallel) {
      const longest = Math.max(...requests.map(({ prompt, outputLen }) => prompt.length + outputLen));
      const room = ["-np", String(parallel), "-c", String(parallel * (longest + 64))];
      const listen = ["--host", "127.0.0.1", "--port", String(PORT), "--no-webui"];
      const server = spawn(program("llama-server"), [...common, ...room, ...listen], { stdio: "ignore" });
      try {
        await untilHealthy(server);
        const start = performance.now();
        await Promise.all(requests.map(complete));
        return (performance.now() - start) / 1000;
      } finally {
        server.kill();
        await new Promise((resolve) => (server.exitCode === null ? server.once("exit", resolve) : resolve()));
      }
    },
  };
}

async function untilHealthy(server) {
  for (let tries = 0; tries < 600 && server.exitCode === null; tries++) {
    const answer = await fetch(`http://127.0.0.1:${PORT}/health`).catch(() => null);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`llama-server did not come up on port ${PORT}`);
}

async function complete({ prompt, outputLen }) {
  const body = { prompt, n_predict: outputLen, ignore_eos: true, temperature: 0, cache_prompt: true };
  const answer = await fetch(`http://127.0.0.1:${PORT}/completion`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const { tokens_predicted: tokens } = await answer.json();
  if (tokens !== outputLen) throw new Error(`llama-server generated ${tokens} tokens of ${outputLen}`);
}
