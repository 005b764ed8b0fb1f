import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Conversation } from "./conversation.js";
import { MultiLine } from "./multi-line.js";

test("the oldest turns leave, the system message stays", () => {
  const talk = new Conversation("be brief");
  talk.add("a", "b");
  talk.add("c", "d");
  assert.equal(talk.dropOldest(), true);
  assert.deepEqual(
    talk.messages.map(({ content }) => content),
    ["be brief", "c", "d"],
  );
  assert.equal(talk.takeLast(), "c");
  assert.equal(talk.takeLast(), null);
  assert.equal(talk.dropOldest(), false);
});

test("a saved conversation comes back whole; another file leaves the present one alone", () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-chat-"));
  const talk = new Conversation("be brief");
  talk.add("a", "b");
  talk.save(join(folder, "talk.json"));
  const again = new Conversation(null);
  again.load(join(folder, "talk.json"));
  assert.deepEqual(again.messages, talk.messages);
  writeFileSync(join(folder, "other.json"), '[{"role": 1}]');
  assert.throws(() => again.load(join(folder, "other.json")), /holds no saved conversation/);
  assert.deepEqual(again.messages, talk.messages);
});

test("a backslash and triple quotes carry a message over lines", () => {
  const lines = new MultiLine();
  assert.equal(lines.push("plain "), "plain");
  assert.equal(lines.push("one\\"), null);
  assert.equal(lines.isOpen, true);
  assert.equal(lines.push("two"), "one\ntwo");
  assert.equal(lines.push('"""first'), null);
  assert.equal(lines.push("  second\\"), null);
  assert.equal(lines.push('third"""'), "first\n  second\\\nthird");
  assert.equal(lines.push('"""all in one"""'), "all in one");
  assert.equal(lines.isOpen, false);
});

test("a turn that was stopped before a word came can be asked again, and is not sent", () => {
  const talk = new Conversation("be brief");
  talk.add("a", "b");
  talk.add("c", "");
  assert.deepEqual(
    talk.messages.map(({ content }) => content),
    ["be brief", "a", "b"],
  );
  assert.equal(talk.takeLast(), "c");
});
