import assert from "node:assert/strict";
import { test } from "node:test";
import { check, checkCuts as checkCutsOf } from "../../../test/support/tool-parser-check.js";
import type { TemplateView } from "./detect-format.js";
import { GEMMA4 } from "./gemma4.js";
import { GLM } from "./glm.js";
import { GRANITE } from "./granite.js";
import { HARMONY } from "./harmony.js";
import { DEEPSEEK, KIMI } from "./marked-calls.js";
import { LFM2, LLAMA4 } from "./pythonic.js";
import type { ToolFormat } from "./tool-format.js";
import { DEEPSEEK_V4, DEEPSEEK_V32, MINIMAX, QWEN3_CODER, SEED } from "./xml-calls.js";

/** Names of the formats whose answers were cut here. */
const cutFormats = new Set<string>();

function checkCuts(format: ToolFormat, answer: string): void {
  cutFormats.add(format.name);
  checkCutsOf(format, answer);
}

test("Qwen3-Coder: elements, values by the tools' schemas", () => {
  const two = `I look.

<tool_call>
<function=get>
<parameter=city>
Rome
"eternal" </par
</parameter>
<parameter=days>
3
</parameter>
<parameter=tags>
["a", "b"]
</parameter>
<parameter=note>
null
</parameter>
</function>
</tool_call>
<tool_call>
<function=put>
<parameter=a>
hello
</parameter>
<parameter=b>
{"x": 1}
</parameter>
</function>
</tool_call>`;
  check(QWEN3_CODER, [
    [
      two,
      "I look.",
      [
        ["get", '{"city": "Rome\\n\\"eternal\\" </par", "days": 3, "tags": ["a", "b"], "note": null}'],
        ["put", '{"a": "hello", "b": {"x": 1}}'],
      ],
    ],
    ["<tool_call>\n<function=get>\n</function>\n</tool_call>\nDone.", "Done.", [["get", "{}"]]],
    [
      "<tool_call>\n<function=get>\n<parameter=city>\n\n</parameter>\n</function>\n</tool_call>",
      "",
      [["get", '{"city": ""}']],
    ],
    [
      "<tool_call>\n<function=get>\n<parameter=days>\nmany\n</parameter></function></tool_call>",
      "",
      [["get", '{"days": "many"}']],
    ],
    // The end of the call is forgotten.
    ["<tool_call><function=get><parameter=city>Rome</parameter></tool_call> x", "x", [["get", '{"city": "Rome"}']]],
    ["<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>", []],
    ["a <tool_ca", "a <tool_ca", []],
    ["<tool_call>\n<function=get>\n<parameter=city>\nRo", "", [["get", '{"city": "Ro']]],
  ]);
  checkCuts(QWEN3_CODER, two);
});

test("Qwen3-Coder and kin: a call without a name is text, and nothing of it is lost, beside calls too", () => {
  const get = "<function=get><parameter=city>Rome</parameter></function>";
  const rome: [string, string] = ["get", '{"city": "Rome"}'];
  // What looks like a call in a value is none, whether the call around it has a name or not.
  const nested = "<function=>\n<parameter=code>\n<function=get></function>\n</parameter>\n</function>";
  const alone = [
    "<tool_call><function=></function></tool_call>",
    "<tool_call>\n<function=>\n</function>\n</tool_call>\n Done.",
    "<tool_call><function= \n><parameter=city>Rome</parameter></function></tool_call>",
    "<tool_call><function=></tool_call>",
    "<tool_call><function=>",
    "<tool_call><function=><parameter=city>\nRo",
    "<tool_call><function=></function><function=></function></tool_call>",
    `<tool_call>${nested}</tool_call>`,
  ];
  const beside: [string, string, [string, string][]][] = [
    [`<tool_call><function=></function>${get}</tool_call>`, "<function=></function>", [rome]],
    [`<tool_call>${get}<function=></function></tool_call>z`, "<function=></function>z", [rome]],
    [`<tool_call>${get}\n${nested}\n${get}</tool_call>`, nested, [rome, rome]],
    [`<tool_call><function=>a${get}</tool_call>`, "<function=>a", [rome]],
    [`<tool_call>${get}<function=>a</tool_call>`, "<function=>a", [rome]],
    [`<tool_call>${get}<function=><parameter=city>\nRo</par`, "<function=><parameter=city>\nRo</par", [rome]],
    [
      `<tool_call><function=></function></tool_call><tool_call>${get}</tool_call>`,
      "<tool_call><function=></function></tool_call>",
      [rome],
    ],
  ];
  check(QWEN3_CODER, [...alone.map((text): [string, string, []] => [text, text, []]), ...beside]);
  for (const text of alone) checkCuts(QWEN3_CODER, text);
  for (const [text] of beside) checkCuts(QWEN3_CODER, text);
  const minimax = '<minimax:tool_call><invoke name=""></invoke></minimax:tool_call>';
  check(MINIMAX, [[minimax, minimax, []]]);
});

test("Seed, MiniMax, DeepSeek V3.2 and V4: the same in other spellings", () => {
  const seed =
    "<seed:tool_call>\n<function=get>\n<parameter=city>Rome</parameter>\n<parameter=days>2</parameter>\n</function>\n</seed:tool_call>";
  const minimax =
    '<minimax:tool_call>\n<invoke name="get">\n<parameter name="city">Rome</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n<invoke name="put">\n</invoke>\n</minimax:tool_call>';
  const dsml = (element: string) =>
    `Sure.\n\n<｜DSML｜${element}>\n<｜DSML｜invoke name="put">\n<｜DSML｜parameter name="a" string="true">5</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜${element}>`;
  check(SEED, [[seed, "", [["get", '{"city": "Rome", "days": 2}']]]]);
  check(MINIMAX, [
    [
      minimax,
      "",
      [
        ["get", '{"city": "Rome", "days": 2}'],
        ["put", "{}"],
      ],
    ],
  ]);
  check(DEEPSEEK_V32, [[dsml("function_calls"), "Sure.", [["put", '{"a": "5", "b": 5}']]]]);
  check(DEEPSEEK_V4, [[dsml("tool_calls"), "Sure.", [["put", '{"a": "5", "b": 5}']]]]);
  checkCuts(SEED, seed);
  checkCuts(MINIMAX, minimax);
  checkCuts(DEEPSEEK_V32, dsml("function_calls"));
  checkCuts(DEEPSEEK_V4, dsml("tool_calls"));
});

test("GLM: keys and values in turn", () => {
  const lines =
    "Let me see.\n<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>put\n</tool_call>";
  const oneLine =
    "<tool_call>get<arg_key>city</arg_key><arg_value>A < B</arg_value></tool_call><tool_call>put</tool_call>";
  check(GLM, [
    [
      lines,
      "Let me see.",
      [
        ["get", '{"city": "Rome", "days": 3}'],
        ["put", "{}"],
      ],
    ],
    [
      oneLine,
      "",
      [
        ["get", '{"city": "A < B"}'],
        ["put", "{}"],
      ],
    ],
    ["<tool_call>{no}", "<tool_call>{no}", []],
    ["<tool_call>get<arg_key>city</arg_key><arg_value>Ro", "", [["get", '{"city": "Ro']]],
  ]);
  checkCuts(GLM, lines);
  checkCuts(GLM, oneLine);
});

test("DeepSeek V3 and V3.1: markers around a name and an object", () => {
  const v3 =
    'Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{"city": "Rome"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>put\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>';
  const v31 =
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{"a": {"b": "}"}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>';
  check(DEEPSEEK, [
    [
      v3,
      "Hm.",
      [
        ["get", '{"city": "Rome"}'],
        ["put", "{}"],
      ],
    ],
    [v31, "", [["get", '{"a": {"b": "}"}}']]],
    ["<｜tool▁calls▁begin｜>no", "<｜tool▁calls▁begin｜>no", []],
    ["<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ge", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ge", []],
  ]);
  checkCuts(DEEPSEEK, v3);
  checkCuts(DEEPSEEK, v31);
});

test("Kimi: names as functions.name:index", () => {
  const two =
    'Wait.<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|><|tool_call_begin|>functions.put:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>';
  check(KIMI, [
    [
      two,
      "Wait.",
      [
        ["get", '{"city": "Rome"}'],
        ["put", "{}"],
      ],
    ],
  ]);
  checkCuts(KIMI, two);
});

test("gpt-oss: channels of reasoning, calls and text", () => {
  const call =
    '<|channel|>analysis<|message|>They ask for < weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"city":"Rome"}<|call|>';
  check(HARMONY, [
    [call, "", [["get", '{"city":"Rome"}']], "They ask for < weather."],
    ["<|channel|>final<|message|>Hello <b>", "Hello <b>", []],
    [
      "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
      "Yes.",
      [],
      "Hm",
    ],
    [
      '<|start|>assistant to=functions.put<|channel|>commentary json<|message|>{"a":1}<|call|>',
      "",
      [["put", '{"a":1}']],
    ],
    ["<|channel|>commentary<|message|>I will look.<|end|>", "I will look.", []],
    ["plain words", "plain words", []],
    ["<|channel|>analysis<|message|>cut of", "", [], "cut of"],
  ]);
  checkCuts(HARMONY, call);
  const parser = HARMONY.createParser({ names: new Set(), parameter: () => undefined });
  assert.deepEqual(parser.push("Just words"), [{ kind: "text", text: "Just words" }], "as they come");
});

test("Gemma 4: bare keys, strings between markers of their own", () => {
  const two =
    'Ok.<|tool_call>call:get{city:<|"|>Rome, "the" {city}<|"|>,days:3,tags:[<|"|>a<|"|>,<|"|>b<|"|>],o:{k:true,x:-1.5e3,n:null}}<tool_call|><|tool_call>call:put{}<tool_call|>';
  check(GEMMA4, [
    [
      two,
      "Ok.",
      [
        ["get", '{"city":"Rome, \\"the\\" {city}","days":3,"tags":["a","b"],"o":{"k":true,"x":-1.5e3,"n":null}}'],
        ["put", "{}"],
      ],
    ],
    ["<|tool_call>nothing", "<|tool_call>nothing", []],
    ["<|tool_call>call:ge", "<|tool_call>call:ge", []],
  ]);
  checkCuts(GEMMA4, two);
});

test("Granite and Phi 4 mini: a list after a marker", () => {
  const two = 'So.<|tool_call|>[{"name": "get", "arguments": {"city": "Rome"}}, {"name": "put", "arguments": {}}]';
  check(GRANITE, [
    [
      two,
      "So.",
      [
        ["get", '{"city": "Rome"}'],
        ["put", "{}"],
      ],
    ],
    [
      `${two}<|/tool_call|> Bye`,
      "So.Bye",
      [
        ["get", '{"city": "Rome"}'],
        ["put", "{}"],
      ],
    ],
    ["<|tool_call|>no", "<|tool_call|>no", []],
  ]);
  checkCuts(GRANITE, two);
});

test("LFM2 and Llama 4: calls as Python", () => {
  const list = `[get(city="It's \\"Rome\\"", days=3, tags=['a', "b"]), put(a=None, b=True, c={'k': (1, 2)}, d=-1.5), put()]`;
  const calls: [string, string][] = [
    ["get", '{"city": "It\'s \\"Rome\\"", "days": 3, "tags": ["a", "b"]}'],
    ["put", '{"a": null, "b": true, "c": {"k": [1, 2]}, "d": -1.5}'],
    ["put", "{}"],
  ];
  const spell = (format: ToolFormat) =>
    format === LFM2 ? ["<|tool_call_start|>", "<|tool_call_end|>"] : ["<|python_start|>", "<|python_end|>"];
  for (const format of [LFM2, LLAMA4]) {
    const [open, close] = spell(format) as [string, string];
    check(format, [
      [`Hm.${open}${list}${close} Done`, "Hm.Done", calls],
      [`${open}[1, 2]${close}`, `${open}[1, 2]${close}`, []],
      [`${open}put()${close}Done`, "Done", [["put", "{}"]]],
      [`${open}[put()] Done`, "Done", [["put", "{}"]]],
      [`${open}[put()] ${close.slice(0, 5)}`, "", [["put", "{}"]]],
      // Brackets that do not match.
      [`${open}[put(a=1]${close}Done`, "Done", [["put", '{"a": 1}']]],
      [`${open}[put(]${close}Done`, "Done", [["put", "{}"]]],
      [`${open}put(a=1}${close}Done`, "Done", [["put", '{"a": 1}']]],
    ]);
    checkCuts(format, open + list + close);
    checkCuts(format, `${open}[put()] Done`);
    const escaped = String.raw`[get(city="\x41\u00e9\n\t\\\'.", days=1)]`;
    check(format, [[open + escaped + close, "", [["get", String.raw`{"city": "Aé\n\t\\'.", "days": 1}`]]]]);
  }
});

test("a format is taken by its name, or none; never without a template", async () => {
  const { toolFormatOf } = await import("./detect-format.js");
  const view = (chatTemplate: string | null) => ({ chatTemplate }) as TemplateView;
  assert.equal(toolFormatOf(view(""), "glm"), GLM);
  assert.equal(toolFormatOf(view(""), "none"), null);
  assert.equal(toolFormatOf(view(null), "glm"), null);
});

test("every format has a name of its own, and its answers were cut anywhere", async () => {
  const { TOOL_FORMATS } = await import("./formats.js");
  const names = TOOL_FORMATS.map(([format]) => format.name);
  assert.equal(new Set(names).size, names.length);
  const plain = TOOL_FORMATS.filter(([format]) => !format.needsSpecialTokens).map(([format]) => format.name);
  assert.deepEqual(plain, ["hermes"], "the others' markers are special tokens, or may be");
  const elsewhere = ["hermes", "llama3", "mistral"]; // in tool-parsers.test.ts
  assert.deepEqual([...cutFormats, ...elsewhere].sort(), [...names].sort());
});
