import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addMessage,
  type Conversation,
  chooseSibling,
  lineageOf,
  type Message,
  mergeStored,
  newConversation,
  pathOf,
  pendingCall,
  searchConversations,
  siblingsOf,
  titleOf,
  UNTITLED,
  withoutOldest,
} from "./conversation.js";
import { fileName, fromJson, toJson, toMarkdown } from "./conversation-file.js";

/** u1 -> a1, a2 (regenerated) -> u2; u1b (an edit of u1) -> a3. */
function sample(): Conversation {
  const conversation = newConversation("c", 0);
  const say = (id: string, parent: string, role: Message["role"], content: string): void =>
    addMessage(conversation, { id, parent, role, content, createdMs: conversation.messages.length });
  say("u1", "", "user", "A  story\nof foxes");
  say("a1", "u1", "assistant", "One fox.");
  say("a2", "u1", "assistant", "Two foxes.");
  say("u2", "a2", "user", "More");
  say("u1b", "", "user", "A story of owls");
  say("a3", "u1b", "assistant", "An owl.");
  return conversation;
}
const shown = (conversation: Conversation): string[] => pathOf(conversation).map(({ id }) => id);
const byId = (conversation: Conversation, id: string): Message => conversation.messages.find((m) => m.id === id)!;

test("editing and regenerating lose nothing: every branch is reached again, as it was left", () => {
  const conversation = sample();
  assert.deepEqual(shown(conversation), ["u1b", "a3"]);
  assert.deepEqual(siblingsOf(conversation, byId(conversation, "u1b")), { index: 1, count: 2 });
  chooseSibling(conversation, byId(conversation, "u1b"), 1); // there is none further
  assert.deepEqual(shown(conversation), ["u1b", "a3"]);
  chooseSibling(conversation, byId(conversation, "u1b"), -1);
  assert.deepEqual(shown(conversation), ["u1", "a2", "u2"]);
  chooseSibling(conversation, byId(conversation, "a2"), -1);
  assert.deepEqual(shown(conversation), ["u1", "a1"]);
  chooseSibling(conversation, byId(conversation, "a1"), 1);
  assert.deepEqual(shown(conversation), ["u1", "a2", "u2"]);
  const lineage = lineageOf(conversation, "u2");
  assert.deepEqual(lineage, pathOf(conversation));
  assert.deepEqual(withoutOldest(lineage), [byId(conversation, "u2")]);
  assert.equal(withoutOldest(lineage.slice(0, 2)), null);
});

test("titles, and search in titles and all branches", () => {
  const conversation = sample();
  assert.equal(titleOf(conversation), "A story of foxes");
  assert.equal(titleOf(newConversation("n", 0)), UNTITLED);
  assert.equal(titleOf({ ...conversation, name: "Mine" }), "Mine");
  const other = { ...newConversation("d", 9), updatedMs: 9, name: "Owls and maps" };
  const found = (query: string): string[] => searchConversations([conversation, other], query).map(({ id }) => id);
  assert.deepEqual(found(""), ["d", "c"]);
  assert.deepEqual(found("OWL"), ["d", "c"]);
  assert.deepEqual(found("fox two"), ["c"]);
  assert.deepEqual(found("fox maps"), []);
});

test("two tabs: what the other one said is kept", () => {
  const [mine, stored] = [sample(), sample()];
  addMessage(mine, { id: "m", parent: "a3", role: "user", content: "mine", createdMs: 10 });
  addMessage(stored, { id: "s", parent: "a3", role: "user", content: "theirs", createdMs: 11 });
  const merged = mergeStored(mine, stored);
  assert.deepEqual(siblingsOf(merged, byId(merged, "s")), { index: 1, count: 2 });
  assert.equal(shown(merged).at(-1), "m");
  assert.equal(mergeStored(mine, undefined), mine);
});

test("a file holds every branch, and gives the same tree under new ids", () => {
  const conversation = sample();
  conversation.settings = { system: "Be brief.", temperature: "0" };
  addMessage(conversation, {
    ...{ id: "t", parent: "a3", role: "assistant", content: "", createdMs: 12, reasoning: "hm", model: "m" },
    ...{ facts: ["3 tokens"], toolCalls: [{ id: "call", name: "look_up", arguments: '{"a":1}' }] },
  });
  assert.equal(pendingCall(pathOf(conversation))?.id, "call");
  addMessage(conversation, { id: "r", parent: "t", role: "tool", content: "`1`", createdMs: 13, toolCallId: "call" });
  assert.equal(pendingCall(pathOf(conversation)), null);
  let next = 0;
  const [read] = fromJson(toJson([conversation]), () => `n${next++}`);
  const bare = ({ messages }: Conversation): unknown[] => messages.map((m) => ({ ...m, id: "", parent: "" }));
  assert.deepEqual(bare(read!), bare(conversation));
  assert.deepEqual(
    pathOf(read!).map(({ content }) => content),
    pathOf(conversation).map(({ content }) => content),
  );
  assert.deepEqual(read!.settings, conversation.settings);
  assert.ok(read!.messages.every(({ id }) => /^n\d+$/.test(id)));

  const text = toMarkdown(conversation);
  assert.match(text, /^# A story of foxes\n\n> Be brief\.\n\n## You\n\nA story of owls\n\n## Answer\n\nAn owl\./);
  assert.match(
    text,
    /## Answer \(m\)[\s\S]*Calls `look_up`\n\n```json\n\{\n {2}"a": 1\n\}\n```\n\n## Tool\n\n```json\n`1`/,
  );
  assert.equal(fileName("Füchse / owls: 2?", "md"), "Füchse-owls-2.md");
  assert.equal(fileName("///", "json"), "conversation.json");
});

test("files that are none are refused in words, and bring nothing unknown in", () => {
  const file = (conversations: unknown): string =>
    JSON.stringify({ format: "pagoda-conversations", version: 1, conversations });
  const user = { id: "a", parent: "", role: "user", content: "hi" };
  const cases: [string, RegExp][] = [
    ["{", /not JSON/],
    ["[]", /no object/],
    ["{}", /no conversations of Pagoda/],
    [JSON.stringify({ format: "pagoda-conversations", version: 2, conversations: [] }), /version 2/],
    [file([1]), /conversation 1 is no object/],
    [file([{}]), /no messages/],
    [file([{ messages: [{ ...user, parent: "b" }] }]), /not before it/],
    [file([{ messages: [{ ...user, parent: "a" }] }]), /not before it/],
    [file([{ messages: [user, user] }]), /no id of its own/],
    [file([{ messages: [{ ...user, role: "system" }] }]), /role "system"/],
    [file([{ messages: [{ ...user, toolCalls: [{}] }] }]), /tool call without/],
  ];
  for (const [text, message] of cases) assert.throws(() => fromJson(text, () => "n"), message, text);
  const [read] = fromJson(file([{ messages: [{ ...user, extra: 1 }], onload: "x", chosen: { "": "z" } }]), () => "n");
  assert.deepEqual(Object.keys(read!.messages[0]!), ["id", "parent", "role", "content", "createdMs"]);
  assert.ok(!("onload" in read!));
});

test("pictures of a message are in its files, and only those that are in the file itself come back", () => {
  const picture = "data:image/png;base64,iVBORw0KGgo=";
  const conversation = newConversation("c", 0);
  const images = [picture, "https://elsewhere.example/a.png", "data:image/svg+xml;base64,AAAA", "data:text/html,x"];
  addMessage(conversation, { id: "u", parent: "", role: "user", content: "Which?", images, createdMs: 1 });
  const [read] = fromJson(toJson([conversation]), () => "n");
  assert.deepEqual(read!.messages[0]!.images, [picture]);
  assert.ok(toMarkdown(read!).includes(`![picture](${picture})`));
});
