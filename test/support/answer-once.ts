// An engine that answers one prompt and leaves: in this process, or in one of its own.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createEngine, type EngineOptions } from "../../src/engine/client/engine.js";

export interface Answer {
  readonly cachedTokens: number;
  readonly tokenIds: readonly number[];
  readonly logprobs: unknown;
  /** What was written to standard error. */
  readonly log: string;
}

export async function answerOnce(config: EngineOptions, prompt: readonly number[]): Promise<Answer> {
  const log: string[] = [];
  const { write } = process.stderr;
  process.stderr.write = (line: string | Uint8Array) => log.push(String(line)) > 0;
  try {
    const engine = await createEngine({ worker: false, ...config });
    const options = { maxTokens: 12, temperature: 1.1, seed: 3, ignoreEos: true, logprobs: 4 };
    const { samples, trace } = await engine.generate(prompt, options).result();
    await engine.close();
    const { tokenIds, logprobs } = samples[0]!;
    return { cachedTokens: trace.cachedTokens, tokenIds, logprobs, log: log.join("") };
  } finally {
    process.stderr.write = write;
  }
}

export function answerInProcess(config: EngineOptions, prompt: readonly number[]): Answer {
  const args = JSON.stringify([{ ...config, worker: true }, prompt]);
  const script = `
    import { answerOnce } from ${JSON.stringify(import.meta.url)};
    console.log(JSON.stringify(await answerOnce(...${args})));
  `;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout) as Answer;
}
