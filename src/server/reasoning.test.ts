import assert from "node:assert/strict";
import { test } from "node:test";
import { endsThinking, ReasoningSplitter } from "./reasoning.js";

function split(text: string, isThinking: boolean, size: number): { reasoning: string; content: string } {
  const splitter = new ReasoningSplitter(isThinking);
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
  ];
  for (const [text, isThinking, reasoning, content] of cases) {
    for (let size = 1; size <= text.length; size++)
      assert.deepEqual(split(text, isThinking, size), { reasoning, content }, `${JSON.stringify(text)} by ${size}`);
  }
  assert.ok(endsThinking("<|assistant|>\n<think>\n") && !endsThinking("<think></think>\n"));
});
