// Tokens guessed ahead, as clients see them: usage, traces, tinted pieces of a stream, counters, and the fields by which they ask.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { streamChat } from "../../bench/load/stream-chat.js";
import type { StepRecord } from "../../src/engine/types.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

interface Reply {
  readonly choices: readonly {
    readonly message: { readonly content: string };
    readonly delta?: { readonly content?: string; readonly pagoda_guessed?: boolean };
  }[];
  readonly usage?: {
    readonly completion_tokens: number;
    readonly completion_tokens_details?: {
      readonly accepted_prediction_tokens: number;
      readonly rejected_prediction_tokens: number;
    };
  };
  readonly pagoda_trace?: Record<"drafts" | "draftTokens" | "acceptedTokens" | "steps", number>;
}

const PATH = "/v1/chat/completions";
const few = Object.fromEntries([60, 61, 62, 63].map((id) => [id, 5])); // such text repeats itself
const asked = {
  messages: [{ role: "user", content: "<=>?<=>?<=>?" }],
  ...{ max_tokens: 40, temperature: 0, ignore_eos: true, logit_bias: few },
};
const headers = { "x-pagoda-trace": "1" };
let host: TestServer;

before(async () => {
  host = await startServer({
    model: writeTinyCheckpoint(),
    targetStepMs: 0,
    speculative: { method: "off", minMatch: 1 },
  });
});
after(async () => host?.[Symbol.asyncDispose]());

const ask = async (body: object): Promise<Reply> =>
  (await (await host.post(PATH, { ...asked, ...body }, headers)).json()) as Reply;

test("usage and trace say what came of guesses, and nothing where there were none", async () => {
  const plain = await ask({});
  assert.equal(plain.usage!.completion_tokens_details, undefined);
  assert.equal(plain.pagoda_trace!.drafts, 0);
  const guessed = await ask({ speculative: "ngram" });
  assert.equal(guessed.choices[0]!.message.content, plain.choices[0]!.message.content);
  const { drafts, draftTokens, acceptedTokens, steps } = guessed.pagoda_trace!;
  assert.ok(acceptedTokens > 10 && drafts > 0 && steps < plain.pagoda_trace!.steps);
  assert.deepEqual(guessed.usage!.completion_tokens_details, {
    accepted_prediction_tokens: acceptedTokens,
    rejected_prediction_tokens: draftTokens - acceptedTokens,
  });
});

test("fewer guesses than the engine's, by each server's name for it", async () => {
  for (const body of [
    { speculative: { method: "ngram", tokens: 1 } },
    { speculative: "ngram", "speculative.n_max": 1 },
  ]) {
    const { drafts, draftTokens } = (await ask(body)).pagoda_trace!;
    assert.ok(drafts > 0 && draftTokens === drafts, JSON.stringify(body));
  }
  assert.equal((await ask({ speculative: "ngram", "speculative.n_max": 0 })).pagoda_trace!.drafts, 0);
  const refused = await host.post(PATH, { ...asked, speculative: "oracle" });
  assert.equal(refused.status, 400);
});

test("a predicted output is a text to guess from, and the answer is the same", async () => {
  const body = { messages: [{ role: "user", content: "abc" }], logit_bias: {}, seed: 3, temperature: 0.8 };
  const plain = await ask(body);
  assert.equal(plain.pagoda_trace!.drafts, 0);
  const { content } = plain.choices[0]!.message;
  const predicted = await ask({ ...body, prediction: { type: "content", content } });
  assert.equal(predicted.choices[0]!.message.content, content);
  assert.ok(predicted.pagoda_trace!.drafts > 0);
  const off = await ask({ ...body, speculative: false, prediction: { type: "content", content } });
  assert.equal(off.pagoda_trace!.drafts, 0);
});

test("a traced stream marks the pieces that were guessed", async () => {
  const body = { ...asked, speculative: "ngram", stream: true };
  const read = async (extra: Record<string, string>): Promise<Reply[]> => {
    const text = await (await host.post(PATH, body, extra)).text();
    const lines = text.split("\n").filter((line) => line.startsWith("data: {"));
    return lines.map((line) => JSON.parse(line.slice(6)) as Reply);
  };
  const deltas = (await read(headers)).flatMap(({ choices }) => choices.map(({ delta }) => delta!));
  const whole = (await ask({ speculative: false })).choices[0]!.message.content;
  assert.equal(deltas.map(({ content = "" }) => content).join(""), whole);
  const marked = deltas.filter(({ pagoda_guessed }) => pagoda_guessed === true);
  assert.ok(marked.length > 0 && marked.length < deltas.length);
  const plain = (await read({})).flatMap(({ choices }) => choices.map(({ delta }) => delta!));
  assert.ok(plain.every((delta) => !("pagoda_guessed" in delta)));
});

test("36 streams at once, guessed for in every way, some leaving: each is what it is without guesses", async () => {
  const model = writeTinyCheckpoint();
  const draftModel = writeTinyCheckpoint({ layers: 1, seed: 2 });
  const speculative = { method: "draft", minMatch: 1 } as const;
  await using loaded = await startServer({ model, draftModel, speculative, numPages: 160 }, { maxConcurrent: 32 });
  const bodies = Array.from({ length: 36 }, (_, i) => ({
    ...asked,
    messages: [{ role: "user", content: `<=>?<=>?<=>? ${i % 12}` }],
    stream: true,
    temperature: i % 3 === 0 ? 0 : 0.8,
    seed: i,
    max_tokens: 30 + (i % 17),
    ...(i % 4 === 3 ? { frequency_penalty: 0.5 } : {}),
  }));
  const plain: string[] = [];
  for (const body of bodies) plain.push((await streamChat(loaded.url, { ...body, speculative: false })).text);
  assert.equal((await loaded.engine.stats()).speculation.drafts, 0);
  const methods = ["draft", "ngram", "suffix", false] as const;
  const leaves = (i: number): boolean => i % 5 === 4;
  const replies = await Promise.all(
    bodies.map((body, i) => {
      const own = { ...body, speculative: methods[i % methods.length] };
      return streamChat(loaded.url, own, leaves(i) ? { leaveAfter: 300 } : {});
    }),
  );
  for (const [i, { isWhole, text }] of replies.entries()) {
    if (isWhole) assert.equal(text, plain[i], `stream ${i}`);
    else assert.ok(leaves(i) && plain[i]!.startsWith(text), `stream ${i} was cut`);
  }
  const { speculation } = await loaded.engine.stats();
  assert.ok(speculation.drafts > 36 && speculation.acceptedTokens > 0);
  await until(async () => {
    const { running, waiting, pagesUsed } = await loaded.engine.stats();
    return running + waiting + pagesUsed === 0;
  }, "nothing is left");
});

test("counters have vLLM's names, and records of steps the guesses of their rows", async () => {
  const { speculation } = await host.engine.stats();
  const scrape = await (await fetch(`${host.url}/metrics`)).text();
  const value = (name: string): number =>
    Number(new RegExp(`^pagoda_spec_decode_${name}[{][^}]*[}] (\\S+)$`, "m").exec(scrape)?.[1]);
  assert.equal(value("drafts_total"), speculation.drafts);
  assert.equal(value("draft_tokens_total"), speculation.draftTokens);
  assert.equal(value("accepted_tokens_total"), speculation.acceptedTokens);
  const places = [
    ...scrape.matchAll(/^pagoda_spec_decode_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"[^}]*\} (\S+)$/gm),
  ];
  const perPosition = places.map(([, , count]) => Number(count));
  assert.deepEqual(perPosition, speculation.acceptedPerPosition);
  const rows = host.engine.inspect.history().flatMap(({ rows: all }: StepRecord) => all);
  const sum = (of: "drafted" | "accepted"): number => rows.reduce((total, row) => total + (row[of] ?? 0), 0);
  assert.deepEqual([sum("drafted"), sum("accepted")], [speculation.draftTokens, speculation.acceptedTokens]);
});
