// Pictures through a real server: every API's way to send them gives the same answer, tokens of pictures are counted, and what is hostile is
// refused in bounds while others are served.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { deflateSync } from "node:zlib";
import Anthropic from "@anthropic-ai/sdk";
import { generateText } from "ai";
import OpenAI from "openai";
import { createPagoda } from "../../src/ai/index.js";
import { seeingCheckpoint } from "../support/seeing-checkpoint.js";
import { startServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const OWN = "test/goldens-vision/qwen3vl";
const PICTURE = readFileSync(`${OWN}/image-2-1.png`);
const BASE64 = PICTURE.toString("base64");
const URL_OF = `data:image/png;base64,${BASE64}`;
const TEXT = "What is on this picture, and what is beside it?";
const PLACED = 6 + 2; // its tokens, and the markers around them

const OPTIONS = { device: "reference", numPages: 200, kvDtype: "f32" } as const;
const checkpoint = seeingCheckpoint(OWN, "qwen3vl");
const at = await startServer(
  { model: checkpoint, ...OPTIONS },
  { apiKey: ["secret", "other"], maxBodyMb: 1, maxImageBodyMb: 2 },
);
after(() => at[Symbol.asyncDispose]());
const model = at.engine.model.name;
const { client } = at;
const common = { model, max_tokens: 8, temperature: 0, seed: 1 } as const;
const asked = (part: unknown) => [{ role: "user", content: [part, { type: "text", text: TEXT }] }];
const image = (url: string, detail?: "low" | "high") => ({
  type: "image_url",
  image_url: { url, ...(detail && { detail }) },
});

async function failure(response: Response): Promise<{ status: number; code: string }> {
  const { error } = (await response.json()) as { error: { code?: string; type: string } };
  return { status: response.status, code: error.code ?? error.type };
}
const chat = (messages: unknown, more: object = {}, headers = {}) =>
  at.post("/v1/chat/completions", { ...common, messages, ...more }, headers);

const own = await at.engine
  .chat(
    [
      {
        role: "user",
        content: [
          { type: "image", image: URL_OF },
          { type: "text", text: TEXT },
        ],
      },
    ],
    {
      ...{ maxTokens: 8, temperature: 0, seed: 1, salt: "own" },
    },
  )
  .result();

test("OpenAI's chat: the library's answer, streamed too, and usage counts the picture's tokens", async () => {
  const messages = asked(image(URL_OF)) as OpenAI.ChatCompletionMessageParam[];
  const whole = await client.chat.completions.create({ ...common, messages });
  assert.equal(whole.choices[0]!.message.content, own.text);
  assert.equal(whole.usage!.prompt_tokens, own.trace.promptTokens);
  const plain = await client.chat.completions.create({ ...common, messages: [{ role: "user", content: TEXT }] });
  assert.equal(whole.usage!.prompt_tokens, plain.usage!.prompt_tokens + PLACED);
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...common, messages, stream: true }))
    text += chunk.choices[0]?.delta.content ?? "";
  assert.equal(text, own.text);
  const again = await client.chat.completions.create({ ...common, messages });
  assert.ok(again.usage!.prompt_tokens_details!.cached_tokens! > 0);
  const other = new OpenAI({ baseURL: `${at.url}/v1`, apiKey: "other", maxRetries: 0 });
  const tenant = await other.chat.completions.create({ ...common, messages });
  assert.deepEqual(
    [tenant.choices[0]!.message.content, tenant.usage!.prompt_tokens_details?.cached_tokens ?? 0],
    [own.text, 0],
  );
  for (const part of [image(URL_OF, "low"), { type: "image_url", image_url: URL_OF }])
    assert.equal((await chat(asked(part))).status, 200);
});

test("Responses, Anthropic, Ollama and the AI SDK: the same", async () => {
  const content = [
    { type: "input_image" as const, image_url: URL_OF, detail: "auto" as const },
    { type: "input_text" as const, text: TEXT },
  ];
  const response = await client.responses.create({
    model,
    max_output_tokens: 8,
    temperature: 0,
    input: [{ role: "user", content }],
  });
  assert.equal(response.output_text, own.text);
  assert.equal(response.usage!.input_tokens, own.trace.promptTokens);
  const next = await client.responses.create({
    model,
    max_output_tokens: 4,
    input: "And now?",
    previous_response_id: response.id,
  });
  assert.ok(next.usage!.input_tokens > own.trace.promptTokens, "the picture stays in the conversation");

  const anthropic = new Anthropic({ baseURL: at.url, apiKey: "secret", maxRetries: 0 });
  const block = {
    type: "image" as const,
    source: { type: "base64" as const, media_type: "image/png" as const, data: BASE64 },
  };
  const messages = [{ role: "user" as const, content: [block, { type: "text" as const, text: TEXT }] }];
  const greedy = { temperature: 0 } as object; // of older models, to the client's types
  const message = await anthropic.messages.create({ model, max_tokens: 8, messages, ...greedy });
  assert.equal(message.content[0]!.type === "text" && message.content[0]!.text, own.text);
  const counted = await anthropic.messages.countTokens({ model, messages });
  assert.equal(counted.input_tokens, own.trace.promptTokens);
  const result = [
    { role: "user" as const, content: "Look." },
    { role: "assistant" as const, content: [{ type: "tool_use" as const, id: "t", name: "look", input: {} }] },
    { role: "user" as const, content: [{ type: "tool_result" as const, tool_use_id: "t", content: [block] }] },
  ];
  const { input_tokens } = await anthropic.messages.countTokens({ model, messages: result });
  assert.ok(input_tokens > PLACED);

  const ollama = await at.post("/api/chat", {
    ...{ model, stream: false, options: { num_predict: 8, temperature: 0 } },
    messages: [{ role: "user", content: TEXT, images: [BASE64] }],
  });
  const { message: said, prompt_eval_count } = (await ollama.json()) as {
    message: { content: string };
    prompt_eval_count: number;
  };
  assert.deepEqual([said.content, prompt_eval_count], [own.text, own.trace.promptTokens]);
  const generated = await at.post("/api/generate", {
    ...{ model, stream: false, options: { num_predict: 8, temperature: 0 }, prompt: TEXT, images: [BASE64] },
  });
  assert.equal(((await generated.json()) as { response: string }).response, own.text);
  const shown = (await (await at.post("/api/show", { model })).json()) as { capabilities: string[] };
  assert.ok(shown.capabilities.includes("vision"));

  const provider = createPagoda({ ...OPTIONS, worker: false });
  const { text } = await generateText({
    model: provider(checkpoint),
    ...{ temperature: 0, maxOutputTokens: 8 },
    messages: [
      {
        role: "user",
        content: [
          { type: "image", image: PICTURE },
          { type: "text", text: TEXT },
        ],
      },
    ],
  });
  await provider.close();
  assert.equal(text, own.text);
});

/** A PNG of so many pixels a side whose rows are all alike, and so is nearly nothing. */
function bomb(side: number, claimed = side): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(data.length);
    head.write(type, 4, "latin1");
    return Buffer.concat([head, data, Buffer.alloc(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(claimed, 0);
  header.writeUInt32BE(claimed, 4);
  header.set([8, 2], 8);
  const pixels = deflateSync(Buffer.alloc((side * 3 + 1) * side));
  const signature = Buffer.from("89504e470d0a1a0a", "hex");
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", pixels), chunk("IEND", Buffer.alloc(0))]);
}

const urlOf = (bytes: Uint8Array, type = "image/png"): string =>
  `data:${type};base64,${Buffer.from(bytes).toString("base64")}`;

test("bombs, broken and disguised files, other places and too many are refused by code, and bystanders are served", async () => {
  const bystander = client.chat.completions.create({
    ...common,
    max_tokens: 60,
    messages: [{ role: "user", content: "Tell me." }],
  });
  const gif = Buffer.concat([Buffer.from("GIF89a"), PICTURE]);
  const refused: [string, string, number][] = [
    [urlOf(bomb(64, 30_000)), "image_too_large", 400],
    [urlOf(bomb(64, 3000)), "image_corrupt", 400],
    [urlOf(PICTURE.subarray(0, 500)), "image_corrupt", 400],
    [urlOf(gif), "image_too_large", 400],
    [urlOf(Buffer.from("%PDF-1.7")), "image_unsupported", 400],
    [
      urlOf(
        Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
        "image/svg+xml",
      ),
      "image_unsupported",
      400,
    ],
    [
      urlOf(Buffer.from("ffd8ffc0001408001000100401110002110003110004110000", "hex"), "image/jpeg"),
      "image_unsupported",
      400,
    ], // in CMYK
    ["data:image/png,plain", "image_unsupported", 400],
    ["file:///etc/passwd", "image_not_allowed", 400],
    ["http://169.254.169.254/latest/meta-data", "image_not_allowed", 400],
    ["gopher://example.com/x", "image_not_allowed", 400],
    [BASE64, "image_not_allowed", 400],
  ];
  for (const [url, code, status] of refused)
    assert.deepEqual(await failure(await chat(asked(image(url)))), { status, code }, url.slice(0, 60));
  const many = [
    { role: "user", content: [...Array.from({ length: 2000 }, () => image(URL_OF)), { type: "text", text: "?" }] },
  ];
  assert.deepEqual(await failure(await chat(many)), { status: 413, code: "body_too_large" });
  const tiny = urlOf(bomb(1));
  const small = [{ role: "user", content: Array.from({ length: 2000 }, () => image(tiny)) }];
  assert.deepEqual(await failure(await chat(small)), { status: 400, code: "too_many_images" });
  const audio = [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "", format: "wav" } }] }];
  assert.deepEqual(await failure(await chat(audio)), { status: 400, code: "invalid_value" });
  const huge = await at.post("/v1/messages", {
    model,
    max_tokens: 1,
    messages: asked({ type: "image", source: { type: "file", file_id: "x" } }),
  });
  assert.equal(huge.status, 400);
  assert.equal((await bystander).usage!.completion_tokens, 60);
  assert.equal((await chat(asked(image(URL_OF)))).status, 200);
  assert.equal((await at.engine.stats()).pagesUsed, 0);
  const metrics = await (await fetch(`${at.url}/metrics`)).text();
  assert.match(metrics, /pagoda_pictures_encoded_total\{[^}]*\} [1-9]/);
});

test("a body of 100 MB is refused while it arrives", async () => {
  const piece = new Uint8Array(2 ** 20).fill(65);
  let sent = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (sent === 0)
        controller.enqueue(
          Buffer.from(
            `{"model":"x","messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,`,
          ),
        );
      if (sent++ < 100) controller.enqueue(piece);
      else controller.close();
    },
  });
  const response = await fetch(`${at.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer secret" },
    body,
    duplex: "half",
  } as RequestInit);
  assert.deepEqual(await failure(response), { status: 413, code: "body_too_large" });
});

test("bodies without pictures keep their limit, and a model without eyes says so", async () => {
  const long = "x".repeat(1.5 * 2 ** 20);
  assert.equal((await at.post("/v1/completions", { ...common, prompt: long })).status, 413);
  assert.deepEqual(await failure(await chat([{ role: "user", content: long }])), {
    status: 400,
    code: "context_length_exceeded",
  });
  await using blind = await startServer({ model: writeTinyCheckpoint(), device: "reference" });
  const body = { max_tokens: 2, messages: asked(image(URL_OF)) };
  assert.deepEqual(await failure(await blind.post("/v1/chat/completions", body)), { status: 400, code: "no_eyes" });
});
