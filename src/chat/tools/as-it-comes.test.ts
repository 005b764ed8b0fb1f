// When each piece of an answer is given: at once where it is certain, and not before. Answers come letter by letter here; a dot is a letter
// after which nothing was given, (name) is a call, 'text' some of its arguments, ~text~ reasoning. After | comes what the end gives.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TOOL_FORMATS } from "./formats.js";
import { pythonToJson } from "./python-literal.js";
import { type CallBody, SectionParser } from "./section-parser.js";
import { TagWatch } from "./tags.js";
import type { ToolEvent, ToolSet } from "./tool-format.js";

const TOOLS: ToolSet = {
  names: new Set(["get", "put"]),
  parameter: (_, name) => (name === "s" ? { type: "string" } : undefined),
};

function shown(events: readonly ToolEvent[]): string {
  const texts = events.map((event) => {
    if (event.kind === "call") return `(${event.name})`;
    if (event.kind === "text") return event.text;
    return event.kind === "reasoning" ? `~${event.text}~` : `'${event.text}'`;
  });
  return texts.join("") || ".";
}

function timeline(format: string, answer: string): string {
  const parser = TOOL_FORMATS.find(([{ name }]) => name === format)![0].createParser(TOOLS);
  const given = [...answer].map((letter) => shown(parser.push(letter)));
  return `${given.join("")}|${shown(parser.flush())}`
    .replaceAll("\n", "/")
    .replaceAll(/\.{4,}/g, (dots) => `.${dots.length}.`);
}

const CASES: readonly (readonly [format: string, answer: string, given: string])[] = [
  [
    "hermes",
    'Hm. <b \n<tool_call>\n{"name": "get", "arguments": {"a": [1]}}\n</tool_call>\n <tool_call>{"arguments": {}, "name": "put"}</tool_call>\nSo <tool',
    `Hm... <b.27.(get).15.'{''"''a''"'':'' ''[''1'']''}'.57.(put)'{}'.14.So.6.| <tool`,
  ],
  ["hermes", '<tool_call>{"x": 1}</tool_call>y', '.18.<tool_call>{"x": 1}.</tool_call>y|.'],
  ["hermes", '<tool_call>{"name": "get", "arguments": "{}"} text', ".24.(get).18.'{}'..text|."],
  ["hermes", '<tool_call>{"name": "get", "arguments": {}}</tool', ".24.(get).15.'{''}'.7.|."],
  ["hermes", "x<tool_call>", "x.11.|."],
  ["hermes", '<tool_call>{"name": 5, "arguments": {}}z', '.38.<tool_call>{"name": 5, "arguments": {}}z|.'],
  [
    "hermes",
    '<tool_call>{"name": "get", "n": 1.5, "m": [true],\t"o":null\r, "arguments": {"q": "\\"}"}}</tool_call>',
    ".24.(get).49.'{''\"''q''\"'':'' ''\"''\\''\"''}''\"''}'.13.|.",
  ],
  ["hermes", '<tool_call>{"name": "get", "n": 1 , "m": 2 }</tool_call>z', ".24.(get).31.z|."],
  ["hermes", '<tool_call>{"n": 1 "name": "get"}z', '.19.<tool_call>{"n": 1 "name":. "get"}z|.'],
  ["hermes", '<tool_call>{"n": 1]z', '.18.<tool_call>{"n": 1]z|.'],
  [
    "hermes",
    'Hm \n<tool_call>{"name": "", "n": 1} </tool_call>',
    'Hm.32. /<tool_call>{"name": "", "n": 1}.. </tool_call>|.',
  ],
  ["hermes", " \n a", "... / a|."],
  ["hermes", "<tool_call>{}z", ".12.<tool_call>{}z|."],
  ["hermes", '<tool_call>{"name" "get"}z', '.19.<tool_call>{"name" "get"}z|.'],
  ["hermes", '<tool_call>{"name": "get" "a"}z', '.24.(get)..a"}z|.'],
  ["hermes", "<tool_call>{1: 2}z", ".12.<tool_call>{1:. 2}z|."],
  ["hermes", '<tool_call>{["a"]: 2}z', '.12.<tool_call>{["a"]:. 2}z|.'],
  ["hermes", '<tool_call>{true, "name": "get"}z', '.12.<tool_call>{true,. "name":. "get"}z|.'],
  ["hermes", "<tool_call>[1]z", ".11.<tool_call>[1]z|."],
  [
    "hermes",
    '<tool_call>{"name": "a\\u0062c", "parameters": {"k": 1}}</tool_call>',
    `.29.(abc).16.'{''"''k''"'':'' ''1''}'.13.|.`,
  ],
  ["hermes", '<tool_call>{"name": "get", "arguments": "{\\q"}</tool_call>', ".24.(get).19.'{}'.13.|."],
  [
    "hermes",
    '<tool_call>{"name": "get", "arguments": {"a": 1}, "parameters": {"b": 2}}</tool_call>',
    `.24.(get).15.'{''"''a''"'':'' ''1''}'.16.'{''"''b''"'':'' ''2''}'.13.|.`,
  ],
  ["hermes", "<tool_call>{ }z", ".13.<tool_call>{ }z|."],
  [
    "llama3",
    '{"name": "get", "parameters": {"a": 1}} ; \n{"name": "put", "parameters": {}} rest',
    `.13.(get).16.'{''"''a''"'':'' ''1''}'.18.(put).16.'{''}'..rest|.`,
  ],
  ["llama3", ' <|python_tag|> {"name": "get", "parameters": {}},{"a": 1} x', `.29.(get).16.'{''}'.9.{"a": 1}. x|.`],
  ["llama3", "<|python_tag|>print(1)", ".14.<|python_tag|>print(1)|."],
  ["llama3", "<|python_", ".9.|<|python_"],
  ["llama3", " \n", "..| /"],
  ["llama3", '{"name": "no", "parameters": {}} x', '.31.{"name": "no", "parameters": {}}. x|.'],
  ["llama3", '{"name": "get", "par', ".13.(get).6.|."],
  ["llama3", "<|python_tag|>", ".14.|<|python_tag|>"],
  ["llama3", '{"na', '.4.|{"na'],
  [
    "mistral",
    'Hm [T x[TOOL_CALLS] [{"name": "get", "arguments": {"a": 1}} , {"name": "put", "arguments": {}}] \n y',
    `Hm... [T x.27.(get).15.'{''"''a''"'':'' ''1''}'.17.(put).15.'{''}'.5.y|.`,
  ],
  [
    "mistral",
    'Sure. [TOOL_CALLS]get[ARGS]{"a": "}"} \n[TOOL_CALLS] put {"b": 2} [TOOL_ z',
    `Sure.23.(get)'{''"''a''"'':'' ''"''}''"''}'.19.(put)'{''"''b''"'':'' ''2''}'.7.[TOOL_ z|.`,
  ],
  [
    "mistral",
    '[ {"name": "get", "arguments": {}}, {"name": "put", "arguments": {}}] x',
    ".15.(get).15.'{''}'.16.(put).15.'{''}'...x|.",
  ],
  ["mistral", '[{"name": "no", "arguments": {}}] x', '.31.[{"name": "no", "arguments": {}}]. x|.'],
  ["mistral", " [ 1]", "... [ 1]|."],
  ["mistral", "[TOOL_CALLS]ge", ".14.|[TOOL_CALLS]ge"],
  ["mistral", '[{"na', '.5.|[{"na'],
  ["mistral", '[TOOL_CALLS]get{"a": 1', `.15.(get)'{''"''a''"'':'' ''1'|.`],
  ["mistral", "a [TOOL", "a.6.| [TOOL"],
  ["mistral", "[TOOL_CALLS] [ ]z", ".16.z|."],
  ["mistral", "[TOOL_CALLS] [1", ".14.[TOOL_CALLS] [1|."],
  ["mistral", '[TOOL_CALLS] [{"name": ""}] z', '.28.[TOOL_CALLS] [{"name": ""}] z|.'],
  [
    "mistral",
    '[TOOL_CALLS] [{"name": ""}, {"name": "get", "arguments": {}}, {"name": 5}]z',
    `.41.{"name": ""}(get).15.'{''}'.13.{"name": 5}.z|.`,
  ],
  [
    "mistral",
    '[TOOL_CALLS] [{"name": "get", "arguments": {}}, {"name": " ", ',
    `.27.(get).15.'{''}'.17.|{"name": " ", `,
  ],
  ["mistral", '[TOOL_CALLS] [ARGS] {"a": 1} z', '.29.[TOOL_CALLS] [ARGS] {"a": 1} z|.'],
  [
    "harmony",
    '<|channel|>analysis<|message|>a < b <|e x<|end|><|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"a":"<"}<|call|><|start|>assistant<|channel|>final<|message|>So <|re',
    `.30.~a~~ ~.~< ~~b~~ ~...~<|e ~~x~.91.(get)'{''"''a''"'':''"'.'<"''}'.53.So .4.|<|re`,
  ],
  ["harmony", "plain <|end|> words", "plain .8. words|."],
  ["harmony", "<|channel|>final<|message|>x<|return|>", ".27.x.10.|."],
  ["harmony", "to=put<|message|>{", ".16.(put)'{'|."],
  ["harmony", ' to=functions.get <|message|>{"a":1}', `.28.(get)'{''"''a''"'':''1''}'|.`],
  ["harmony", "<|message|>x<|end|>", ".11.x.7.|."],
  ["harmony", "the <b", ".the .<b|."],
  ["harmony", "assist", ".6.|assist"],
  ["harmony", "<", ".|<"],
  [
    "harmony",
    "<|channel|>commentary to=functions.<|message|>{<|call|><|start|>assistant<|channel|>analysis<|message|>x",
    ".45.<|channel|>commentary to=functions.<|message|>{.7.<|call|>.48.~x~|.",
  ],
  ["harmony", " \n", "..| /"],
  ["harmony", "assistant<|channel|>final to=assistant<|message|>y", ".49.y|."],
  ["harmony", "<|channel|>analysis", ".19.|<|channel|>analysis"],
  ["harmony", '<|channel|>commentary to=functions.get<|message|>{"a":1}<|ca', `.48.(get)'{''"''a''"'':''1''}'.4.|.`],
  [
    "gemma4",
    'Ok <|t \n<|tool_call> call: get {s:<|"|>a "b" <|x<|"|>, n:3,b:false,t:True,l:[1,-2.5e+3,word],o:{a-b:null,c:None}}<tool_call|> <|tool_call>call:put{} <tool_call|>z',
    "Ok.4. <|t.24.(get)'{'.'\"s\":'.4.'\"''a'' ''\\\"''b''\\\"'' '..'<|x'.4.'\"'','' '.'\"n\":'.'3,'.'\"b\":'.5.'false,'.'\"t\":'.4.'\"True\",'.'\"l\":''['.'1,'.7.'-2.5e+3,'.4.'\"word\"]'','.'\"o\":''{'...'\"a-b\":'.4.'null,'.'\"c\":'.4.'null}''}'.33.(put)'{''}'.13.z|.",
  ],
  ["gemma4", "<|tool_call>none", ".12.<|tool_call>none|."],
  ["gemma4", "<|tool_call>call:get x", ".21.<|tool_call>call:get x|."],
  ["gemma4", '<|tool_call>call:get{s:<|"|>cut', `.20.(get)'{'.'"s":'.4.'"''c''u''t'|.`],
  ["gemma4", "<|tool_call>call:get{n:12", `.20.(get)'{'.'"n":'..|.`],
  ["gemma4", "<|tool_call> ca", ".15.|<|tool_call> ca"],
  ["gemma4", "<|tool_call>call:get{a:<b>}<tool_call|>", `.20.(get)'{'.'"a":'.'<''"b">''}'.12.|.`],
  [
    "granite",
    'So <|t \n<|tool_call|> [ {"name": "get", "arguments": {"a": 1}} , {"name": "put", "arguments": {}} ] <|/tool_call|> z',
    `So.4. <|t.30.(get).15.'{''"''a''"'':'' ''1''}'.17.(put).15.'{''}'.19.z|.`,
  ],
  ["granite", "<|tool_call|>no", ".13.<|tool_call|>no|."],
  ["granite", '<|tool_call|>[{"x": 1}] y', '.24.<|tool_call|>[{"x": 1}] y|.'],
  [
    "granite",
    '<|tool_call|>[{"name": ""}, {"name": "get", "arguments": {}}, {"name": ""',
    `.41.{"name": ""}(get).15.'{''}'.14.|{"name": ""`,
  ],
  ["granite", '<|tool_call|>[{"na', '.18.|<|tool_call|>[{"na'],
  ["granite", '<|tool_call|>[{"name": "get", "arguments": {}}] <|/x', ".27.(get).15.'{''}'.6.<|/x|."],
  ["granite", "<|tool_call|> [", ".15.|<|tool_call|> ["],
  ["granite", "<|tool_call|> ", ".14.|<|tool_call|> "],
  ["granite", "<|tool_call|>[ ] z", ".17. z|."],
  [
    "glm",
    'Let <to \n<tool_call>get\n<arg_key> s </arg_key>\n<arg_value>A </arg x</arg_value>\n<arg_key>n<arg_value>[1]</arg_value><arg_key>q</arg_key><arg_value>"t"</arg_value>\n</tool_call> <tool_call> put</tool_call>z',
    "Let.4. <to.15.(get).33.'{\"s\": ''\"''A'' '.5.'</arg ''x'.11.'\"'.21.', \"n\": '.14.'[1]'.30.', \"q\": '.14.'\"\\\"t\\\"\"'.12.'}'.27.(put)'{}'z|.",
  ],
  ["glm", "<tool_call>{no}", ".11.<tool_call>{no}|."],
  ["glm", "<tool_call>get it</tool_call>", ".15.<tool_call>get it.</tool_call>|."],
  ["glm", "<tool_call>ge", ".13.|<tool_call>ge"],
  ["glm", "<tool_call>get<arg_key>s</arg_key><arg_value>cut</arg_", `.22.(get).21.'{"s": ''"''c''u''t'.6.|.`],
  ["glm", "<tool_call>get<arg_key>s</arg_key>", ".22.(get).11.|."],
  ["glm", "<tool_call>get<ar", ".17.|<tool_call>get<ar"],
  ["glm", "<tool_call>get\n<arg_key>n</arg_key><arg_value>1", `.14.(get).30.'{"n": '.|.`],
  [
    "deepseek",
    'Hm <｜t \n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{"a": "}"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>put<｜tool▁sep｜>{}<｜tool▁call▁end｜> <｜tool▁calls▁end｜> z',
    `Hm.4. <｜t.72.(get)'{''"''a''"'':'' ''"''}''"''}'.56.(put)'{''}'.37.z|.`,
  ],
  ["deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜><｜tool▁sep｜>get\n{}", ".55.(get)'{''}'|."],
  ["deepseek", "<｜tool▁calls▁begin｜>no", ".20.<｜tool▁calls▁begin｜>no|."],
  [
    "deepseek",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜>no",
    ".54.(get)'{''}'.17.no|.",
  ],
  ["deepseek", "<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜>ge", ".42.|<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜>ge"],
  ["deepseek", "<｜tool▁calls▁begin｜> ", ".21.|<｜tool▁calls▁begin｜> "],
  ["deepseek", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>z", ".38.z|."],
  [
    "deepseek",
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{"a": 1',
    `.54.(get)'{''"''a''"'':'' ''1'|.`,
  ],
  [
    "kimi",
    'W<|tool_calls_section_begin|><|tool_call_begin|>functions.get:12<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_call_begin|>put<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>z',
    `W.91.(get)'{''"''a''"'':'' ''1''}'.67.(put)'{''}'.43.z|.`,
  ],
  [
    "lfm2",
    'Hm <|t \n<|tool_call_start|>[ get(s="It\'s", n=3, t=[\'a\', "b"], (1, 2)) , put()]<|tool_call_end|> z',
    `Hm.4. <|t.25.(get).8.'{"s": "It's"'.4.', "n": 3'.13.', "t": ["a", "b"]'.7.', "arg3": [1, 2]''}'.6.(put)'{}'.19.z|.`,
  ],
  ["lfm2", "<|tool_call_start|>[1]<|tool_call_end|>", ".20.<|tool_call_start|>[1].12.<|tool_call_end|>|."],
  [
    "lfm2",
    '<|tool_call_start|>[put(a="\\x41\\n\\q\\\\", b=f(1, [2]), c=x y, d="\\u00e9\\0")]z',
    '.23.(put).14.\'{"a": "A\\nq\\\\"\'.12.\', "b": "f(1, [2])"\'.6.\', "c": "x y"\'.13.\', "d": "é\\u0000"\'\'}\'..|z',
  ],
  ["lfm2", '<|tool_call_start|>[put(a="\\x41b\\u00e9f")]', `.23.(put).16.'{"a": "Abéf"''}'.|.`],
  ["lfm2", "<|tool_call_start|>[ge", ".22.|<|tool_call_start|>[ge"],
  ["lfm2", "<|tool_call_start|>[put(a=1", ".23.(put)...|."],
  ["lfm2", "<|tool_call_start|>[, ", ".22.|<|tool_call_start|>[, "],
  [
    "lfm2",
    `<|tool_call_start|>[put(a={'k': (1, 2,), "x": "a,)"}, b='it"s', c=None , )]<|tool_call_end|>z`,
    '.23.(put).28.\'{"a": {"k": [1, 2], "x": "a,)"}\'.9.\', "b": "it\\"s"\'.8.\', "c": null\'.\'}\'.18.z|.',
  ],
  ["lfm2", "<|tool_call_start|>[put(a=True)]<|tool", `.23.(put).6.'{"a": true''}'.7.|.`],
  ["llama4", "<|python_start|>[put(a=None)]<|python_end|>z", `.20.(put).6.'{"a": null''}'.15.z|.`],
  [
    "qwen3-coder",
    'I <to \n\n<tool_call>\n<function=get>\n<parameter=s>\nA </b\n"q"\n</parameter>\n<parameter=n> 3 </parameter><parameter=b>True</parameter><parameter=x>Rome</parameter></function>\n</tool_call>\n<tool_call><function=put></function></tool_call>\nend <too',
    "I.4. <to.27.(get).13.'{\"s\": ''\"'.'A'' '..'</b'.'\\n\\\"''q''\\\"'.12.'\"'.13.', \"n\": '.14.'3'.12.', \"b\": '.15.'true'.12.', \"x\": '.15.'\"Rome\"'.10.'}'.38.(put).10.'{}'.13.end.5.| <too",
  ],
  ["qwen3-coder", "<tool_call> none </tool_call> x", ".28.<tool_call> none </tool_call>. x|."],
  ["qwen3-coder", "<tool_call><function=get><parameter=s>cut", `.24.(get).12.'{"s": ''"''c''u''t'|.`],
  [
    "qwen3-coder",
    "<tool_call><function=get><parameter=s>a</parameter><function=put></tool_call>",
    `.24.(get).12.'{"s": ''"''a'.11.'"'.9.'}'...(put).11.'{}'|.`,
  ],
  [
    "qwen3-coder",
    "<tool_call><function=get><parameter=>5</parameter></function></tool_call>z",
    `.24.(get).11.'{"": '.12.'5'.10.'}'.12.z|.`,
  ],
  ["qwen3-coder", "<tool_call><function=ge", ".23.|<tool_call><function=ge"],
  [
    "qwen3-coder",
    "<tool_call><function=></function></tool_call>z",
    ".44.<tool_call><function=></function></tool_call>z|.",
  ],
  [
    "qwen3-coder",
    "<tool_call><function=></function><function=put></function><function=></function></tool_call>z",
    ".46.<function=></function>(put).10.'{}'.21.<function=></function>.12.z|.",
  ],
  ["qwen3-coder", "<tool_call> <fu", ".15.|<tool_call> <fu"],
  [
    "seed",
    'I <se \n\n<seed:tool_call>\n<function=get>\n<parameter=s>\nA </b\n"q"\n</parameter>\n<parameter=n> 3 </parameter><parameter=b>True</parameter><parameter=x>Rome</parameter></function>\n</seed:tool_call>\n<seed:tool_call><function=put></function></seed:tool_call>\nend <see',
    "I.4. <se.32.(get).13.'{\"s\": ''\"'.'A'' '..'</b'.'\\n\\\"''q''\\\"'.12.'\"'.13.', \"n\": '.14.'3'.12.', \"b\": '.15.'true'.12.', \"x\": '.15.'\"Rome\"'.10.'}'.48.(put).10.'{}'.18.end.5.| <see",
  ],
  [
    "minimax",
    'I <mi \n\n<minimax:tool_call>\n<invoke name="get">\n<parameter name="s">\nA </b\n"q"\n</parameter>\n<parameter name="n"> 3 </parameter><parameter name="b">True</parameter><parameter name="x">Rome</parameter></invoke>\n</minimax:tool_call>\n<minimax:tool_call><invoke name="put"></invoke></minimax:tool_call>\nend <min',
    "I.4. <mi.40.(get).20.'{\"s\": ''\"'.'A'' '..'</b'.'\\n\\\"''q''\\\"'.12.'\"'.20.', \"n\": '.14.'3'.19.', \"b\": '.15.'true'.19.', \"x\": '.15.'\"Rome\"'.8.'}'.59.(put).8.'{}'.21.end.5.| <min",
  ],
  [
    "deepseek-v3.2",
    '<｜DSML｜function_calls><｜DSML｜invoke name="put"><｜DSML｜parameter name="a" string="true">5</｜DSML｜parameter><｜DSML｜parameter name="b" string="false">"5"</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>z',
    `.46.(put).39.'{"a": ''"''5'.17.'"'.40.', "b": '.20.'"5"'.14.'}'.23.z|.`,
  ],
  [
    "deepseek-v4",
    '<｜DSML｜tool_calls><｜DSML｜invoke name="put"><｜DSML｜parameter name="s">5</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>z',
    `.42.(put).25.'{"s": ''"''5'.17.'"'.14.'}'.19.z|.`,
  ],
];

/** All of it, however it was cut. */
function joined(format: string, answer: string, size: number): string {
  const parser = TOOL_FORMATS.find(([{ name }]) => name === format)![0].createParser(TOOLS);
  const events: ToolEvent[] = [];
  for (let i = 0; i < answer.length; i += size) events.push(...parser.push(answer.slice(i, i + size)));
  events.push(...parser.flush());
  let index = -1;
  for (const event of events) {
    if (event.kind === "call") assert.equal(event.index, ++index);
    else if (event.kind === "arguments") assert.equal(event.index, index);
    if (event.kind !== "call") assert.notEqual(event.text, "");
  }
  return shown(events).replaceAll("''", "").replaceAll("~~", "");
}

test("answers come to the same however they are cut", () => {
  for (const [format, answer] of CASES) {
    const whole = joined(format, answer, answer.length);
    for (const size of [1, 2, 3, 5, 8, 13])
      assert.equal(joined(format, answer, size), whole, `${format} ${answer} ${size}`);
  }
});

test("every format gives what is certain as it comes, and holds what may be a marker", () => {
  for (const [format, answer, given] of CASES) assert.equal(timeline(format, answer), given, `${format}: ${answer}`);
  const formats = new Set(CASES.map(([format]) => format));
  assert.deepEqual([...formats].sort(), TOOL_FORMATS.map(([{ name }]) => name).sort());
});

test("white space before a marker is held up to a bound, and shown beyond it, however the answer is cut", () => {
  for (const [format] of TOOL_FORMATS) {
    if (format.partsReasoning === true) continue;
    const given = [1, 7, 4096].map((size) => {
      const parser = format.createParser(TOOLS);
      const answer = `x${" ".repeat(3000)}`;
      let text = "";
      for (let at = 0; at < answer.length; at += size)
        for (const event of parser.push(answer.slice(at, at + size))) text += event.kind === "text" ? event.text : "";
      return text.length;
    });
    assert.ok(
      given[0]! >= 1 + 3000 - 1024 && given[0] === given[1] && given[1] === given[2],
      `${format.name} ${given}`,
    );
  }
});

test("what is longer than any header of gpt-oss is text, and a literal's end is found where it was cut", () => {
  const long = `<|channel|>${"x".repeat(2000)}`;
  assert.equal(
    timeline("harmony", `${long}<|message|>y`)
      .replaceAll(/\.(\d+)\./g, "")
      .includes("y"),
    true,
  );
  const parser = TOOL_FORMATS.find(([{ name }]) => name === "lfm2")![0].createParser(TOOLS);
  const events = [..."<|tool_call_start|>[get(s='a\\', b)', t=[1, (2)])]<|tool_call_end|>"].flatMap((c) =>
    parser.push(c),
  );
  const args = events.flatMap((event) => (event.kind === "arguments" ? [event.text] : [])).join("");
  assert.deepEqual(JSON.parse(args), { s: "a', b)", t: [1, [2]] });
});

test("what stands before a call's name, list or end is bounded: beyond it is text, however the answer is cut", () => {
  const far = " ".repeat(5000);
  const cases: readonly (readonly [format: string, before: string, run: string])[] = [
    ["llama3", "", far],
    ["llama3", "<|python_tag|>", far],
    ["mistral", "", far],
    ["mistral", "[", far],
    ["mistral", "[TOOL_CALLS]", far],
    ["granite", "<|tool_call|>", far],
    ["granite", "<|tool_call|>[]", far],
    ["gemma4", "<|tool_call>", far],
    ["gemma4", "<|tool_call>call:", far],
    ["gemma4", "<|tool_call>call:", "g".repeat(5000)],
    ["lfm2", "<|tool_call_start|>", "g".repeat(5000)],
    ["lfm2", "<|tool_call_start|>[get", far],
  ];
  for (const [format, before, run] of cases) {
    const texts = [1, 100, 10_000].map((size) => {
      const parser = TOOL_FORMATS.find(([{ name }]) => name === format)![0].createParser(TOOLS);
      const answer = before + run;
      let text = "";
      for (let at = 0; at < answer.length; at += size)
        for (const event of parser.push(answer.slice(at, at + size))) if (event.kind === "text") text += event.text;
      return text;
    });
    assert.ok(
      texts.every((text) => text !== ""),
      `${format} ${before}`,
    );
    assert.equal(texts[0]!.trim(), texts[2]!.trim(), `${format} ${before}`);
    assert.equal(texts[0]!.trim(), texts[1]!.trim(), `${format} ${before}`);
  }
});

test("a parser does not look again at what it waits behind", () => {
  const looks: string[] = [];
  const body: CallBody = {
    take: (text) => {
      looks.push(text);
      const at = text.indexOf("</end>");
      if (at >= 0) return { rest: text.slice(at + 6), next: "done" };
      return { rest: text, next: "wait", until: new TagWatch(["</end>", "</never>"], text) };
    },
  };
  const parser = new SectionParser("<go>", () => body);
  const answer = `a<go>${"</en".repeat(1000)}</end>z`;
  const events = [...answer].flatMap((letter) => parser.push(letter));
  assert.deepEqual(
    looks.map(({ length }) => length),
    [0, 4006],
  );
  assert.equal(events.map((event) => (event.kind === "text" ? event.text : "")).join(""), answer);
});

test("long arguments and long white space take no longer than they are", () => {
  const NUM = 100_000;
  const json = (literal: string): string => pythonToJson(literal);
  assert.equal(json(`[${"[1, ], ".repeat(NUM)}]`), `[${Array(NUM).fill("[1]").join(", ")}]`);
  assert.equal(json("[(1,),{'a': [2 , ]},'x,]']"), '[[1],{"a": [2 ]},"x,]"]');
  const parser = TOOL_FORMATS.find(([{ name }]) => name === "gemma4")![0].createParser(TOOLS);
  for (const letter of "<|tool_call>call: ") parser.push(letter);
  let text = "";
  for (let i = 0; i < NUM; i++) for (const event of parser.push(" ")) if (event.kind === "text") text += event.text;
  assert.ok(text.length > NUM - 2000);
});
