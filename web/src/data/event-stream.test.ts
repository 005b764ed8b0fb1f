import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStreamParser } from "./event-stream.js";

const TEXT =
  ': waiting\n\nevent: history\ndata: [1,\ndata: 2]\n\ndata: {"a":"ü"}\r\n\r\nevent: step\n\ndata:x\n\ndata: cut';
const EVENTS = [
  { event: "history", data: "[1,\n2]" },
  { event: "message", data: '{"a":"ü"}' },
  { event: "message", data: "x" },
];

test("events are read whole, comments and events without data are passed over", () => {
  assert.deepEqual(new EventStreamParser().push(TEXT), EVENTS);
});

test("where the text is cut does not matter", () => {
  for (let size = 1; size < TEXT.length; size++) {
    const parser = new EventStreamParser();
    const events = [];
    for (let at = 0; at < TEXT.length; at += size) events.push(...parser.push(TEXT.slice(at, at + size)));
    assert.deepEqual(events, EVENTS, `pieces of ${size}`);
  }
});
