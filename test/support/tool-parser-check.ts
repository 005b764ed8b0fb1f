// Whole answers through a parser of tool calls, in pieces of every size.

import assert from "node:assert/strict";
import type { ToolFormat, ToolSet } from "../../src/chat/tools/tool-format.js";

export interface Parsed {
  text: string;
  reasoning: string;
  calls: { name: string; arguments: string }[];
}

/** get(city: string, days: integer, tags: string[], note: string | null), put(a) */
const PARAMETERS: Readonly<Record<string, unknown>> = {
  city: { type: "string" },
  days: { type: "integer" },
  tags: { type: "array", items: { type: "string" } },
  note: { type: ["string", "null"] },
};
const TOOLS: ToolSet = {
  names: new Set(["get", "put"]),
  parameter: (tool, name) => (tool === "get" ? PARAMETERS[name] : undefined),
};

/** In pieces of `size`, after a first one of `first`. */
export function parse(format: ToolFormat, text: string, size: number, first = size): Parsed {
  const parser = format.createParser(TOOLS);
  const out: Parsed = { text: "", reasoning: "", calls: [] };
  const events = [];
  events.push(...parser.push(text.slice(0, first)));
  for (let i = first; i < text.length; i += size) events.push(...parser.push(text.slice(i, i + size)));
  events.push(...parser.flush());
  for (const event of events) {
    if (event.kind === "text") out.text += event.text;
    else if (event.kind === "reasoning") out.reasoning += event.text;
    else if (event.kind === "call") {
      assert.equal(event.index, out.calls.length);
      out.calls.push({ name: event.name, arguments: "" });
    } else {
      assert.equal(event.index, out.calls.length - 1);
      out.calls[event.index]!.arguments += event.text;
    }
  }
  return out;
}

/** Cases: the answer, its text, its calls, its reasoning. */
export function check(format: ToolFormat, cases: [string, string, [string, string][], string?][]): void {
  for (const [text, content, calls, reasoning = ""] of cases) {
    const expected = { text: content, reasoning, calls: calls.map(([name, args]) => ({ name, arguments: args })) };
    for (let size = 1; size <= text.length; size++) {
      assert.deepEqual(parse(format, text, size), expected, `${JSON.stringify(text)} by ${size}`);
    }
  }
}

/** An answer cut anywhere gives a beginning of what the whole gives: calls, and of the last one what there was of its arguments. */
export function checkCuts(format: ToolFormat, answer: string): void {
  const whole = parse(format, answer, answer.length);
  for (let length = 0; length < answer.length; length++) {
    const cut = answer.slice(0, length);
    const part = parse(format, cut, 3);
    assert.deepEqual(parse(format, cut, cut.length || 1), part, JSON.stringify(cut));
    assert.ok(part.calls.length <= whole.calls.length);
    part.calls.forEach((call, i) => {
      const full = whole.calls[i]!;
      assert.equal(call.name, full.name);
      const isLast = i === part.calls.length - 1;
      assert.ok(
        isLast ? full.arguments.startsWith(call.arguments) : call.arguments === full.arguments,
        `${cut}\n${call.arguments}`,
      );
    });
    // Of a call that has begun nothing is shown as text; of the next one's marker what there is.
    if (part.calls.length === 0) continue;
    let same = 0;
    while (same < part.text.length && part.text[same] === whole.text[same]) same++;
    const marker = part.text.slice(same);
    assert.ok(cut.endsWith(marker) && marker.length < 32, JSON.stringify({ cut, text: part.text }));
  }
}
