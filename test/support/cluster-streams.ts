// Streams of completions as a client of a cluster sees them, and what they must be: the same from an engine that nobody disturbs.

import assert from "node:assert/strict";
import type { Engine, EngineStats, ModelInfo } from "../../src/engine/types.js";

export interface Asked {
  readonly prompt: string;
  readonly max_tokens: number;
  readonly seed: number;
  readonly temperature: number;
  readonly [field: string]: unknown;
}

/** The whole text of each sample, and how it ended. */
export async function stream(url: string, asked: Asked, onToken: () => void): Promise<string> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ stream: true, ...asked }),
  });
  assert.equal(reply.status, 200, await (reply.ok ? "" : reply.text()));
  const texts: string[] = [];
  const ends: string[] = [];
  let rest = "";
  for await (const bytes of reply.body!) {
    rest += Buffer.from(bytes).toString("utf8");
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const { choices, error } = JSON.parse(line.slice(6));
      if (error !== undefined) throw new Error(JSON.stringify(error));
      for (const { index, text, finish_reason } of choices) {
        texts[index] = (texts[index] ?? "") + text;
        if (finish_reason !== null) ends[index] = finish_reason;
        onToken();
      }
    }
  }
  return JSON.stringify([texts, ends]);
}

/** The same from an engine. */
export async function alone(engine: Engine, asked: Asked): Promise<string> {
  const { samples } = await engine
    .generate(asked.prompt, {
      maxTokens: asked.max_tokens,
      seed: asked.seed,
      temperature: asked.temperature,
      repetitionPenalty: (asked.repetition_penalty as number | undefined) ?? 1,
      frequencyPenalty: (asked.frequency_penalty as number | undefined) ?? 0,
      minTokens: (asked.min_tokens as number | undefined) ?? 0,
      stop: (asked.stop as string[] | undefined) ?? [],
      n: (asked.n as number | undefined) ?? 1,
    })
    .result();
  return JSON.stringify([samples.map(({ text }) => text), samples.map(({ finishReason }) => finishReason)]);
}

interface ServerStats {
  readonly model: ModelInfo;
  readonly engine: EngineStats;
  readonly server: { readonly active: number };
}

export function statsOf(url: string): Promise<ServerStats> {
  return fetch(`${url}/api/stats`).then((reply) => reply.json() as Promise<ServerStats>);
}

/** How many replicas a router knows. */
export async function numReplicas(url: string): Promise<number> {
  const { model } = await statsOf(url);
  return Number(/\d+/.exec(model.device)?.[0] ?? 0);
}
