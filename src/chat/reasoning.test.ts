import assert from "node:assert/strict";
import { test } from "node:test";
import { endsThinking, REASONING_TAGS, ReasoningSplitter, type ReasoningTags, THINK } from "./reasoning.js";
import { reasoningTagsOf, type TemplateView } from "./tools/detect-format.js";

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
    reasoningTagsOf({ chatTemplate } as TemplateView, choice)?.name;
  for (const { name, open } of REASONING_TAGS) {
    assert.equal(of("[THINK] <think>", name), name);
    assert.equal(of(`says ${open} somewhere`, "auto"), name);
  }
  assert.equal(of("plain", "auto"), THINK.name);
  assert.equal(of(null, "none"), undefined);
});
