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

test("a text to be continued ends after the last place that shows its content", () => {
  const question = { role: "user", content: "again" };
  const continued = (source: string, content: string) =>
    make(source).renderPrompt([question, { role: "assistant", content }], { continueFinalMessage: true });
  const LAST = "messages[-1].content";
  const table: [source: string, content: string, text: string, spans: [number, number][]][] = [
    [`<{{ ${LAST} }}>`, "x", "<x", [[1, 2]]],
    [
      `<{{ ${LAST} }}|{{ ${LAST} }}>`,
      "xy",
      "<xy|xy",
      [
        [1, 3],
        [4, 6],
      ],
    ],
    // The same words of another message are not its end, wherever they stand.
    [`{{ ${LAST} }}>{{ messages[0].content }}`, "again", "again", [[0, 5]]],
    [
      `{{ messages[0].content }}>{{ ${LAST} }}!`,
      "again",
      "again>again",
      [
        [0, 5],
        [6, 11],
      ],
    ],
    // Of a part that is cut out of it, the end of that part.
    [`[{{ ${LAST}.split('</think>')[-1] }}]`, "hm</think>so", "[so", [[1, 3]]],
    [`[{{ ${LAST}[:2] }}]`, "one", "[on", [[1, 3]]],
    // Spaces at the end stay, whether the template trims them or not; those before it are the template's business.
    [`[{{ ${LAST} | trim }}]`, " so \n", "[so \n", [[1, 5]]],
    [`[{{ ${LAST} }}]`, " so \n", "[ so \n", [[1, 6]]],
    [`[{{ ${LAST}.lstrip() }}]`, " so \n", "[so \n", [[1, 5]]],
    [`[{{ ${LAST}.rstrip() }}]`, " so \n", "[ so \n", [[1, 6]]],
    [`[{{ ${LAST} }}]`, " ", "[ ", [[1, 2]]],
  ];
  for (const [source, content, text, spans] of table)
    assert.deepEqual(continued(source, content), { text, content: spans }, `${source} of ${JSON.stringify(content)}`);
  fails(() => continued(`[{{ ${LAST} | trim }}]`, " "), /does not show/);
  fails(() => continued(`[{{ ${LAST} }}]`, ""), /does not show/);
  const prefixed = new ChatTemplate(new Map([["default", `{{ ${LAST} }}>`]]), {}, "<s>");
  assert.deepEqual(prefixed.renderPrompt([question], { continueFinalMessage: true }), {
    text: "<s>again",
    content: [[3, 8]],
  });
});

test("a prompt knows what came with the request", () => {
  const prefixed = (content: string, prefix: string) =>
    new ChatTemplate(new Map([["default", "{{ messages[0].content }}"]]), {}, prefix).renderPrompt([
      { role: "user", content },
    ]);
  // A beginning that the request wrote is not the template's.
  assert.deepEqual(prefixed("<s>x", "<s>"), { text: "<s><s>x", content: [[3, 7]] });
  assert.deepEqual(prefixed("<s>x", ""), { text: "<s>x", content: [[0, 4]] });
  const half = new ChatTemplate(new Map([["default", "<s{{ messages[0].content }}"]]), {}, "<s>");
  assert.deepEqual(half.renderPrompt([{ role: "user", content: ">x" }]), { text: "<s><s>x", content: [[5, 7]] });
  const shown = (message: Record<string, unknown> & { role: string }, source: string, options = {}) =>
    make(source).renderPrompt([message], options).content;
  const ROLE = "<{{ messages[0].role }}>";
  for (const role of ["system", "developer", "user", "assistant", "tool", "function", "ipython", "observation"])
    assert.deepEqual(shown({ role }, ROLE), [], role);
  assert.deepEqual(shown({ role: "wizard" }, ROLE), [[1, 7]]);
  assert.deepEqual(shown({ role: "user", name: "user" }, "<{{ messages[0].name }}>"), [[1, 5]]);
  const gap = { role: "user", absent: undefined, name: "n" };
  assert.equal(make("{{ messages[0].absent is defined }}{{ messages[0].name }}").render([gap]), "Falsen");
  assert.deepEqual(shown(user, "{{ eos_token }}{{ tone }}", { variables: { tone: "dry" } }), [[4, 7]]);
  const call = { role: "assistant", tool_calls: [{ function: { arguments: '{"a": "b"}' } }, null] };
  assert.deepEqual(shown(call, "<{{ messages[0].tool_calls[0].function.arguments.a }}>"), [[1, 2]]);
});

test("all templates are its source", () => {
  assert.equal(make("a", [["tool_use", "b"]]).source, "a\nb");
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
