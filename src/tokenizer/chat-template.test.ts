import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError } from "../core/errors.js";
import { ChatTemplate } from "./chat-template.js";

const SOURCE = `{{ bos_token }}
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant', 'tool'] %}
        {{- raise_exception('Unknown role ' + message.role) }}
    {%- endif %}
    {{- '[' + message.role + '] ' + (message.content | trim) + '\\n' }}
{%- endfor %}
{%- if tools %}{{- 'tools: ' + (tools | tojson) }}{%- endif %}
{%- if thinking is defined and thinking %}{{- '<think>' }}{%- endif %}
{%- if add_generation_prompt %}{{- '[assistant] ' }}{%- endif %}`;

const make = (source: string, more: [string, string][] = []) =>
  new ChatTemplate(new Map([["default", source], ...more]), { bos_token: "<s>", eos_token: "</s>" });
const user = { role: "user", content: " hi " };

function fails(action: () => unknown, message: RegExp): void {
  assert.throws(action, (error: Error) => {
    assert.ok(error instanceof RequestError && error.code === "template_failed");
    assert.equal(error.param, "messages");
    assert.match(error.message, message);
    return true;
  });
}

test("messages, special tokens, generation prompt and further variables", () => {
  const template = make(SOURCE);
  assert.equal(template.render([user]), "<s>[user] hi\n[assistant] ");
  assert.equal(template.render([user], { addGenerationPrompt: false }), "<s>[user] hi\n");
  assert.equal(template.render([user], { variables: { thinking: true } }), "<s>[user] hi\n<think>[assistant] ");
});

test("a prefix is put before a text that does not begin with it", () => {
  const render = (source: string, prefix: string) =>
    new ChatTemplate(new Map([["default", source]]), { bos_token: "<s>" }, prefix).render([user]);
  assert.equal(render("{{ bos_token }}hi", "<s>"), "<s>hi");
  assert.equal(render("hi", "<s>"), "<s>hi");
  assert.equal(render("hi", ""), "hi");
});

test("a request's variables cannot replace its messages", () => {
  assert.equal(make(SOURCE).render([user], { variables: { messages: [] } }), "<s>[user] hi\n[assistant] ");
});

test("a final message to be continued ends the text, spaces included", () => {
  const text = make(SOURCE).render([user, { role: "assistant", content: "The answer is " }], {
    continueFinalMessage: true,
  });
  assert.equal(text, "<s>[user] hi\n[assistant] The answer is ");
  fails(() => make(SOURCE).render([{ role: "user" }], { continueFinalMessage: true }), /no text to continue/);
  fails(() => make("fixed").render([user], { continueFinalMessage: true }), /does not show/);
});

test("tools reach the template, and a template of their own where there is one", () => {
  const tools = [{ type: "function", function: { name: "f" } }];
  assert.match(
    make(SOURCE).render([user], { tools }),
    /tools: \[\{"type": "function", "function": \{"name": "f"\}\}\]/,
  );
  const both = make("plain", [["tool_use", "with tools"]]);
  assert.equal(both.render([user]), "plain");
  assert.equal(both.render([user], { tools: [] }), "plain");
  assert.equal(both.render([user], { tools }), "with tools");
});

test("tool call arguments arrive as objects, whichever way they were sent", () => {
  const source =
    "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments.city }}{% endfor %}{% endfor %}";
  const call = (args: unknown) => ({ role: "assistant", tool_calls: [{ function: { name: "f", arguments: args } }] });
  assert.equal(make(source).render([call('{"city": "Oslo"}')]), "Oslo");
  assert.equal(make(source).render([call({ city: "Oslo" })]), "Oslo");
  assert.equal(make(source).render([call("{not json")]), "");
});

test("dates are available", () => {
  assert.match(make("{{ strftime_now('%Y') }}").render([user]), /^\d{4}$/);
});

test("a template's refusal and its defects are the request's error, with the reason", () => {
  fails(() => make(SOURCE).render([{ role: "wizard", content: "x" }]), /Unknown role wizard/);
  fails(() => make("{% for %}").render([user]), /chat template refused/);
  fails(() => make("{{ messages | nosuchfilter }}").render([user]), /nosuchfilter/);
  fails(() => new ChatTemplate(new Map(), {}).render([user]), /no template named default/);
});
