import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServerConfig } from "../config/server-config.js";
import type { Engine } from "../engine/types.js";
import { chatOfConversation } from "./anthropic-chat.js";
import { chatOfGenerate } from "./ollama-chat.js";
import { toChatMessages } from "./prompt.js";
import { endsThinking, REASONING_TAGS, ReasoningSplitter, type ReasoningTags, THINK } from "./reasoning.js";
import { chatOfResponse } from "./response-chat.js";
import { ResponseWriter } from "./response-writer.js";
import type { InputItem } from "./schemas/responses.js";
import { reasoningTagsOf } from "./tools/detect-format.js";

test("what an Anthropic client gives back as thinking is a message's reasoning; one without has none", () => {
  const user = { role: "user" as const, content: "a" };
  const said = [
    { type: "thinking" as const, thinking: "first" },
    { type: "thinking" as const, thinking: "then" },
    { type: "text" as const, text: "b" },
  ];
  const assistant = { role: "assistant" as const, content: said };
  const plain = { role: "assistant" as const, content: said.slice(2) };
  const { messages } = chatOfConversation({ model: "m", messages: [user, assistant, user, plain, user] });
  assert.deepEqual(messages[1], { role: "assistant", content: "b", reasoning_content: "first\nthen" });
  assert.deepEqual(messages[3], { role: "assistant", content: "b" });
});

test("reasoning items of a Responses client belong to the assistant's message after them, and are written as items", () => {
  const thought = (text: string): InputItem => ({ type: "reasoning", content: [{ type: "reasoning_text", text }] });
  const items: InputItem[] = [
    { role: "user", content: "a" },
    thought("first, "),
    thought("then"),
    { role: "assistant", content: "b" },
    thought(""),
  ];
  const body = { input: [], include: ["message.output_text.logprobs" as const] };
  const chat = chatOfResponse(body, items);
  assert.deepEqual(chat.messages[1], { role: "assistant", content: "b", reasoning_content: "first, then" });
  assert.equal(chat.messages.length, 2);
  assert.deepEqual([chat.logprobs, chat.top_logprobs], [true, 0]);
  assert.equal("logprobs" in chatOfResponse({ input: [] }, items), false);

  const writer = new ResponseWriter({} as Engine); // its tokenizer is for log-probabilities
  const events = [
    ...writer.take({ delta: { reasoning_content: "first, " }, logprobs: [] }),
    ...writer.take({ delta: { reasoning_content: "then" }, logprobs: [] }),
    ...writer.take({ delta: { content: "" }, logprobs: [] }),
    ...writer.endAll("length"),
  ];
  const deltas = events.filter(({ type }) => type === "response.reasoning_text.delta");
  assert.deepEqual(
    deltas.map(({ fields }) => [fields.delta, fields.output_index]),
    [
      ["first, ", 0],
      ["then", 0],
    ],
  );
  assert.deepEqual(
    writer.items.map(({ type, status, content }) => [type, status, content]),
    [
      ["reasoning", "incomplete", [{ type: "reasoning_text", text: "first, then" }]],
      ["message", "incomplete", [{ type: "output_text", text: "", annotations: [], logprobs: [] }]],
    ],
    "an answer without a word is a message without a word",
  );
  const added = events.filter(({ type }) => type === "response.output_item.added");
  assert.deepEqual(
    added.map(({ fields }) => fields.output_index),
    [0, 1],
  );
});

test("Ollama's think is the template's, and as a text how much", () => {
  const of = (think?: boolean | "low") => {
    const { chat_template_kwargs: kwargs, reasoning_effort } = chatOfGenerate({ model: "m", prompt: "a", think });
    return [kwargs?.enable_thinking, reasoning_effort];
  };
  assert.deepEqual(
    [of(), of(true), of(false), of("low")],
    [
      [undefined, undefined],
      [true, undefined],
      [false, undefined],
      [true, "low"],
    ],
  );
});

test("content may be a list of texts, or nothing", () => {
  const parts = [
    { type: "text" as const, text: "a" },
    { type: "text" as const, text: "b" },
  ];
  const messages = toChatMessages([
    { role: "developer", content: parts },
    { role: "assistant", content: null },
  ]);
  assert.deepEqual(messages, [
    { role: "system", content: "a\nb" },
    { role: "assistant", content: "" },
  ]);
});

function split(
  text: string,
  isThinking: boolean,
  size: number,
  tags: ReasoningTags = THINK,
): { reasoning: string; content: string } {
  const splitter = new ReasoningSplitter(tags, isThinking);
  const out = { reasoning: "", content: "" };
  for (let i = 0; i < text.length; i += size)
    for (const part of splitter.push(text.slice(i, i + size))) out[part.kind] += part.text;
  for (const part of splitter.flush()) out[part.kind] += part.text;
  return out;
}

test("text between think tags is parted from the rest, however it is cut", () => {
  const cases: [string, boolean, string, string][] = [
    ["<think>\nI wonder.\n</think>\n\nHello", false, "I wonder.", "Hello"],
    ["I wonder.\n</think>\n\nHello", true, "I wonder.", "Hello"],
    ["\n<think>a</think>b", false, "a", "b"],
    ["Hello <think>x</think>", false, "", "Hello <think>x</think>"],
    ["<think>never ends </thin", false, "never ends </thin", ""],
    ["<thin", false, "", "<thin"],
    ["  plain", false, "", "  plain"],
    ["<think></think>b\n", false, "", "b\n"],
    ["<think>a</think>", false, "a", ""],
    ["a < b </think> c", true, "a < b", "c"],
    ["<think>a</think><response>b\n</response>\n", false, "a", "b\n"],
    ["<think>a</think>\n<respond>b", false, "a", "<respond>b"],
    ["<think>a</think><response>b</resp", false, "a", "b</resp"],
  ];
  for (const [text, isThinking, reasoning, content] of cases) {
    for (let size = 1; size <= text.length; size++)
      assert.deepEqual(split(text, isThinking, size), { reasoning, content }, `${JSON.stringify(text)} by ${size}`);
  }
  assert.ok(endsThinking("<|assistant|>\n<think>\n", THINK) && !endsThinking("<think></think>\n", THINK));
});

test("what is certain is given at once, letter by letter; tags and white space before them are held until they are known", () => {
  const timeline = (text: string, isThinking: boolean): unknown[] => {
    const splitter = new ReasoningSplitter(THINK, isThinking);
    const told = [...text].flatMap((char, i) => splitter.push(char).map((part) => [i, part.kind, part.text]));
    return [...told, ...splitter.flush().map((part) => ["end", part.kind, part.text])];
  };
  assert.deepEqual(timeline("<think>\na b</t </think> \n<r c<", false), [
    [8, "reasoning", "a"],
    [10, "reasoning", " b"],
    [14, "reasoning", "</t"],
    [27, "content", "<r "],
    [28, "content", "c"],
    [29, "content", "<"],
  ]);
  assert.deepEqual(timeline("a</think><response>b</r c</response> d", true), [
    [0, "reasoning", "a"],
    [19, "content", "b"],
    [23, "content", "</r "],
    [24, "content", "c"],
    [37, "content", "d"],
  ]);
  assert.deepEqual(timeline(" x<", false), [
    [1, "content", " x"],
    [2, "content", "<"],
  ]);
  assert.deepEqual(timeline("</think>", true), []);
  assert.deepEqual(new ReasoningSplitter(THINK, false).flush(), []);
});

test("every family's tags part in the same way", () => {
  for (const tags of REASONING_TAGS) {
    const text = `${tags.open}\nwhy ${tags.close.slice(0, -1)} not\n${tags.close}\n\nso`;
    const expected = { reasoning: `why ${tags.close.slice(0, -1)} not`, content: "so" };
    for (let size = 1; size <= text.length; size++) assert.deepEqual(split(text, false, size, tags), expected);
    assert.ok(endsThinking(`x${tags.open}\n`, tags));
    // Cut anywhere: a beginning of both, plus what there is of a tag.
    for (let length = 0; length < text.length; length++) {
      const cut = text.slice(0, length);
      const part = split(cut, false, 3, tags);
      assert.deepEqual(split(cut, false, cut.length || 1, tags), part, JSON.stringify(cut));
      const isPartOf = (piece: string, whole: string) => {
        let same = 0;
        while (same < piece.length && piece[same] === whole[same]) same++;
        return (
          cut.endsWith(piece.slice(same)) && piece.length - same < Math.max(tags.open.length, tags.close.length) + 2
        );
      };
      assert.ok(isPartOf(part.reasoning, expected.reasoning) && isPartOf(part.content, expected.content), cut);
    }
  }
});

test("tags are those that are named, else those of the template, else the usual ones", () => {
  const of = (chatTemplate: string | null, choice: string) =>
    reasoningTagsOf({ chatTemplate } as Engine, choice as ServerConfig["reasoningParser"])?.name;
  for (const { name, open } of REASONING_TAGS) {
    assert.equal(of("[THINK] <think>", name), name);
    assert.equal(of(`says ${open} somewhere`, "auto"), name);
  }
  assert.equal(of("plain", "auto"), THINK.name);
  assert.equal(of(null, "none"), undefined);
});
