// `suffix`: the gap is between the markers of the model's own vocabulary; a model without them says so.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

interface Completion {
  readonly choices: { readonly text: string }[];
  readonly usage: { readonly prompt_tokens: number };
}

test("a prompt with a suffix is put between the model's markers", async () => {
  const model = writeTinyCheckpoint();
  const file = join(model, "tokenizer.json");
  const text = readFileSync(file, "utf8").replaceAll("<bos>", "<fim_prefix>").replaceAll("<|user|>", "<fim_suffix>");
  writeFileSync(file, text.replaceAll("<|assistant|>", "<fim_middle>"));
  await using host = await startServer({ model });
  const id = (token: string): number => host.engine.tokenizer.encode(token, { addSpecialTokens: false })[0]!;
  const options = { max_tokens: 6, temperature: 0, ignore_eos: true };
  const ask = async (body: object): Promise<Completion> =>
    (await (await host.post("/v1/completions", { ...options, ...body })).json()) as Completion;
  const filled = await ask({ prompt: "<fim_suffix>ab<fim_middle>", suffix: "cd" });
  const plain = (part: string): number[] =>
    [...part].flatMap((char) => host.engine.tokenizer.encode(char, { addSpecialTokens: false }));
  const prompt = [
    id("<fim_prefix>"),
    ...plain("<fim_suffix>ab<fim_middle>"),
    id("<fim_suffix>"),
    ...plain("cd"),
    id("<fim_middle>"),
  ];
  const spelled = await ask({ prompt });
  assert.equal(filled.usage.prompt_tokens, prompt.length, "a marker in the caller's text is text");
  assert.equal(filled.choices[0]!.text, spelled.choices[0]!.text);
});

test("a model that cannot infill refuses a suffix by name", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint() });
  const reply = await host.post("/v1/completions", { prompt: "a", suffix: "b" });
  assert.equal(reply.status, 400);
  const { error } = (await reply.json()) as { error: { param: string; message: string } };
  assert.equal(error.param, "suffix");
  assert.match(error.message, /no markers for infilling/);
});
