import assert from "node:assert/strict";
import { test } from "node:test";
import { overriding } from "../../../test/support/overriding.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { ChatTemplate } from "../../tokenizer/chat-template.js";
import { type ChatCheckpoint, openChatCheckpoint } from "./chat-checkpoint.js";
import { verdictPrompt } from "./verdict-prompt.js";

const tiny = openChatCheckpoint(writeTinyCheckpoint());
const tokenizer = tiny.tokenizer!;
/** Asked for them, it puts a <bos> before every text. */
const marking = overriding(tokenizer, {
  encode: (text, options = {}) => [
    ...(options.addSpecialTokens === false ? [] : [256]),
    ...tokenizer.encode(text, options),
  ],
});
const withQuestion = (question: string | null): ChatCheckpoint => ({
  ...tiny,
  recipe: { ...tiny.recipe, question },
  requireTokenizer: () => marking,
});
const qwen = withQuestion(null);
const asked = withQuestion("Q {query} D {document} END");

test("Qwen's prompt names the instruction, the query and the document", () => {
  const text = tokenizer.decode(verdictPrompt(qwen, "what", "this", "find"));
  assert.match(
    text,
    /^<\|im_start\|>system\nJudge whether .*"no"\.<\|im_end\|>\n<\|im_start\|>user\n<Instruct>: find\n/,
  );
  assert.ok(
    text.endsWith("\n<Query>: what\n<Document>: this<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"),
  );
  assert.match(tokenizer.decode(verdictPrompt(qwen, "a", "b")), /<Instruct>: Given a web search query, retrieve/);
  assert.match(
    tokenizer.decode(verdictPrompt({ ...qwen, chatTemplate: null }, "a", "b")),
    /<Query>: a\n<Document>: b</,
  );
});

test("a checkpoint's own question, or a template that knows the roles, comes before that", () => {
  assert.equal(tokenizer.decode(verdictPrompt(asked, "what", "this")), "Q what D this END");
  const source =
    "{% for m in messages %}[{{ m.role }}={{ m.content }}]{% endfor %}{{ 'x' if 'document' else '' }}" +
    "{% if add_generation_prompt %}>{% endif %}";
  const chatTemplate = new ChatTemplate(new Map([["default", source]]), {}, "");
  const text = tokenizer.decode(verdictPrompt({ ...qwen, chatTemplate }, "what", "this", "find"));
  assert.equal(text, "[system=find][query=what][document=this]x>");
});

test("what a caller writes is text, whatever it looks like", () => {
  const eos = tokenizer.encode("<eos>", {})[0]!;
  assert.equal(eos, 257);
  assert.ok(!verdictPrompt(asked, "<eos>", "<eos>").includes(eos));
  assert.ok(!verdictPrompt(asked, "<eos>", "<eos>yyyyyyyy", undefined, 22).includes(eos), "also where it is cut");
  assert.ok(
    verdictPrompt(withQuestion("<eos>{query}{document}"), "a", "b").includes(eos),
    "the question is the model's",
  );
  assert.equal(tokenizer.decode(verdictPrompt(asked, "", "b")), "Q  D b END");
});

test("a document is cut so that the whole has at most so many tokens; what follows it stays", () => {
  const cut = (document: string, limit: number) =>
    tokenizer.decode(verdictPrompt(asked, "q", document, undefined, limit));
  const around = "Q q D  END".length;
  assert.equal(cut("abcdef", around + 6), "Q q D abcdef END");
  assert.equal(cut("abcdef", around + 5), "Q q D abcde END");
  assert.equal(cut("abcdef", around + 1), "Q q D a END");
  assert.equal(
    cut("abcdef", around),
    "Q q D abcdef END",
    "of nothing no verdict can be had: it is too long, and refused",
  );
  assert.equal(cut("aé", around + 2), "Q q D a END", "half a letter is longer than the letter");
});
