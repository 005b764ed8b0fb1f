// The borders of every field that has some: what is just taken, and what is just not.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { z } from "zod";
import { countTokensSchema, messagesSchema } from "../anthropic/schema.js";
import {
  ollamaChatSchema,
  ollamaEmbeddingsSchema,
  ollamaEmbedSchema,
  ollamaGenerateSchema,
  ollamaShowSchema,
} from "../ollama/schema.js";
import { chatSchema } from "../openai/chat-schema.js";
import { completionSchema } from "../openai/completions-schema.js";
import { responseSchema } from "../openai/responses-schema.js";
import { detokenizeSchema, tokenizeSchema } from "./others.js";
import { samplingOptions } from "./sampling.js";
import { embeddingSchema, rerankSchema, scoreSchema } from "./texts.js";

/** Of a field: values that are taken, and values that are not. */
type Borders = Readonly<Record<string, readonly [taken: readonly unknown[], refused: readonly unknown[]]>>;

function check(schema: z.ZodType, least: object, borders: Borders): void {
  const isTaken = (body: object) => schema.safeParse(body).success;
  assert.ok(isTaken(least), JSON.stringify(least));
  assert.equal(isTaken({ ...least, odd_field: 1 }), false, "unknown fields are refused");
  for (const [field, [taken, refused]] of Object.entries(borders)) {
    for (const value of taken) assert.ok(isTaken({ ...least, [field]: value }), `${field}: ${shown(value)}`);
    for (const value of refused)
      assert.equal(isTaken({ ...least, [field]: value }), false, `${field}: ${shown(value)}`);
  }
}

const shown = (value: unknown): string => JSON.stringify(value).slice(0, 80);
const many = (count: number, value: unknown): unknown[] => Array.from({ length: count }, () => value);
const range = (min: number, max: number, step = 1) =>
  [
    [min, max, null],
    [min - step, max + step],
  ] as const;
const NAMES = [
  ["a", "a.b-c_1", "a".repeat(128)],
  ["", "a".repeat(129), "a b", "ä"],
] as const;
const MOST = 2 ** 24;
const message = { role: "user", content: "a" };

/** Tools in the form of an API, by name: the names that are taken, and how many of them. */
function toolBorders(tool: (name: string) => object): Borders[string] {
  return [
    [...NAMES[0].map((name) => [tool(name)]), [], many(1024, tool("a")), null],
    [...NAMES[1].map((name) => [tool(name)]), many(1025, tool("a"))],
  ];
}

const SAMPLING: Borders = {
  temperature: range(0, 100, 0.01),
  top_k: range(-1, 2 ** 31 - 1),
  top_p: range(0, 1, 0.01),
  min_p: range(0, 1, 0.01),
  repetition_penalty: range(0.01, 100, 0.005),
  presence_penalty: range(-100, 100, 0.1),
  frequency_penalty: range(-100, 100, 0.1),
  min_tokens: range(0, MOST),
  n: range(1, 128),
  stop: [
    ["a", ["a"], [], many(64, "a")],
    ["", [""], many(65, "a")],
  ],
  stop_token_ids: [
    [[0], [], many(1024, 1)],
    [[-1], many(1025, 1), [0.5]],
  ],
  logit_bias: [
    [{ 0: -100, 17: 100 }, {}],
    [{ a: 1 }, { 1: -100.5 }, { 1: 100.5 }, { "-1": 1 }],
  ],
  prompt_logprobs: range(0, 64),
  priority: [[-5, 0, null], [0.5]],
  cache_salt: [["", "a".repeat(1000)], ["a".repeat(1001)]],
  guided_choice: [[["a"]], [[], [""]]],
  stream_options: [[{}, { include_usage: true }, null], [{ odd: 1 }]],
  structured_outputs: [
    [{}, { choice: ["a"] }, { json: "{}" }, { json: {} }],
    [{ choice: [] }, { odd: 1 }],
  ],
  response_format: [
    [{ type: "text" }, { type: "json_object" }],
    [{ type: "xml" }, { type: "json_schema" }],
  ],
};

test("chat completions", () => {
  const tool = (name: string) => ({ type: "function", function: { name } });
  const choice = (tools: unknown[]) => ({ type: "allowed_tools", allowed_tools: { mode: "auto", tools } });
  check(
    chatSchema,
    { messages: [message] },
    {
      ...SAMPLING,
      messages: [[[message]], [[], null]],
      max_tokens: [
        [1, MOST, -1, null],
        [0, MOST + 1, -2],
      ],
      max_completion_tokens: [
        [1, MOST, -1, null],
        [0, MOST + 1, -2],
      ],
      top_logprobs: range(0, 64),
      tools: toolBorders(tool),
      functions: toolBorders((name) => ({ name })),
      tool_choice: [
        ["auto", tool("a"), choice([tool("a")])],
        ["any", choice([])],
      ],
    },
  );
});

test("completions, tokens and texts", () => {
  check(
    completionSchema,
    { prompt: "a" },
    {
      ...SAMPLING,
      max_tokens: range(0, MOST),
      prompt: [
        ["", [0], ["a"], [[0]], [[0], [1]], many(128, "a"), many(128, [1])],
        [[], [-1], [[]], [["a"]], many(129, "a"), many(129, [1])],
      ],
      logprobs: range(0, 64),
    },
  );
  check(tokenizeSchema, {}, { messages: [[[message]], [[]]] });
  check(detokenizeSchema, { tokens: [] }, { tokens: [[[0, 1]], [[-1], [0.5]]] });
  const texts: Borders[string] = [
    ["a", ["a"], many(2048, "a")],
    [[], many(2049, "a")],
  ];
  const cutting = {
    truncate_prompt_tokens: [
      [-1, 0, 9, null],
      [-2, 0.5],
    ],
  } as const;
  check(
    embeddingSchema,
    { input: "a" },
    {
      ...cutting,
      input: [
        [...texts[0], [0], [[0]], many(2048, [1])],
        [...texts[1], [-1], [[]], many(2049, [1])],
      ],
      dimensions: [[1, null], [0]],
      pooling: [["mean"], ["middle"]],
    },
  );
  check(
    rerankSchema,
    { query: "a", documents: ["a"] },
    {
      ...cutting,
      documents: [
        [[{ text: "a" }], many(2048, "a")],
        [[], many(2049, "a")],
      ],
      top_n: [[0, 5, null], [-1]],
    },
  );
  check(scoreSchema, { text_1: "a", text_2: "a" }, { ...cutting, text_1: texts, text_2: texts });
});

test("responses", () => {
  const named = { type: "function", name: "a" };
  check(
    responseSchema,
    { input: "a" },
    {
      input: [
        [[message], [{ type: "item_reference", id: "a" }]],
        [[], [{ role: "tool", content: "a" }]],
      ],
      max_output_tokens: range(1, MOST),
      temperature: range(0, 100, 0.01),
      top_p: range(0, 1, 0.01),
      top_logprobs: range(0, 64),
      tools: toolBorders((name) => ({ type: "function", name })),
      tool_choice: [
        ["none", named, { type: "allowed_tools", mode: "auto", tools: [named] }],
        ["any", { type: "allowed_tools", mode: "auto", tools: [] }],
      ],
      cache_salt: [["", "a".repeat(1000)], ["a".repeat(1001)]],
      background: [[false, null], [true]],
    },
  );
});

test("messages", () => {
  const least = { model: "m", messages: [message] };
  const borders: Borders = {
    messages: [[[message]], [[], [{ role: "tool", content: "a" }]]],
    tools: toolBorders((name) => ({ name, input_schema: {} })),
    thinking: [[{ type: "enabled", budget_tokens: 1 }, { type: "disabled" }], [{ type: "enabled", budget_tokens: 0 }]],
  };
  check(countTokensSchema, least, borders);
  check(
    messagesSchema,
    { ...least, max_tokens: 1 },
    {
      ...borders,
      max_tokens: [
        [1, MOST],
        [0, MOST + 1, null],
      ],
      stop_sequences: [
        [[], ["a"], many(64, "a"), null],
        [[""], many(65, "a")],
      ],
      temperature: range(0, 100, 0.01),
      top_k: range(-1, 2 ** 31 - 1),
      top_p: range(0, 1, 0.01),
    },
  );
});

test("Ollama's routes", () => {
  const options: Borders[string] = [
    [{ num_predict: -2 }, { num_predict: 5, temperature: 0, seed: 3, num_ctx: "any" }, null],
    [{ num_predict: -3 }, { temperature: -1 }, { odd: 1 }],
  ];
  const common: Borders = { options, top_logprobs: range(0, 64), format: [["json", "", {}, null], ["xml"]] };
  const images: Borders[string] = [
    [[], null, ["a"]],
    [[""], "a"],
  ];
  check(
    ollamaChatSchema,
    { model: "m", messages: [] },
    {
      ...common,
      messages: [
        [[message], [{ ...message, images: ["a"] }]],
        [[{ ...message, images: [1] }], [{ role: "developer", content: "" }]],
      ],
      tools: toolBorders((name) => ({ type: "function", function: { name } })),
    },
  );
  check(
    ollamaGenerateSchema,
    { model: "m" },
    { ...common, images, suffix: [[""], ["a"]], template: [["", null], ["a"]] },
  );
  check(
    ollamaEmbedSchema,
    { model: "m", input: "a" },
    {
      options,
      input: [
        ["", ["a"], many(2048, "a")],
        [[], many(2049, "a")],
      ],
      dimensions: [[1, null], [0]],
    },
  );
  check(ollamaEmbeddingsSchema, { model: "m", prompt: "" }, { options });
  check(ollamaShowSchema, {}, { model: [["m"], [1]] });
});

test("vLLM's detection of repetitions, and the samplers that llama.cpp's clients ask for", () => {
  const optionsOf = (body: object) =>
    samplingOptions(chatSchema.parse({ messages: [{ role: "user", content: "a" }], ...body }));
  const { loopCount, loopMinSize, loopMaxSize } = optionsOf({
    repetition_detection: { max_pattern_size: 9, min_pattern_size: 0, min_count: 3 },
  });
  assert.deepEqual([loopCount, loopMinSize, loopMaxSize], [3, 1, 9]);
  assert.equal(chatSchema.safeParse({ messages: [], repetition_detection: { min_count: 3 } }).success, false);
  const { dryMultiplier, drySequenceBreakers, xtcProbability } = optionsOf({
    ...{ dry_multiplier: 0.8, dry_sequence_breakers: ["\n"], xtc_probability: 0.5 },
  });
  assert.deepEqual([dryMultiplier, drySequenceBreakers, xtcProbability], [0.8, ["\n"], 0.5]);
});
