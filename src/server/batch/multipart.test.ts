import assert from "node:assert/strict";
import { test } from "node:test";
import { boundaryOf, readForm } from "./multipart.js";

/** The form as the platform's own writer makes it, in pieces of so many bytes. */
async function read(form: FormData | string, pieceBytes: number, boundary?: string) {
  const response = new Response(form as never);
  const mark = boundary ?? boundaryOf(response.headers.get("content-type")!)!;
  const bytes = Buffer.from(await response.arrayBuffer());
  async function* pieces() {
    for (let i = 0; i < bytes.length; i += pieceBytes) yield bytes.subarray(i, i + pieceBytes);
  }
  const got: Uint8Array[] = [];
  const { fields, file } = await readForm(pieces(), mark, async (piece) => void got.push(Buffer.from(piece)));
  return { fields: Object.fromEntries(fields), file, content: Buffer.concat(got) };
}

test("a form's fields and file, however it comes in pieces", async () => {
  const content = Buffer.from(`{"a":1}\r\n--\r\n-\n\r\n--not\r\n${"x".repeat(500)}\u00e9\0\r\n`);
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([content]), "lines.jsonl");
  form.set("after", "é");
  for (const pieceBytes of [1, 2, 3, 7, 64, 10_000]) {
    const got = await read(form, pieceBytes);
    assert.deepEqual(got.fields, { purpose: "batch", after: "é" });
    assert.deepEqual(got.file, { field: "file", name: "lines.jsonl" });
    assert.deepEqual(got.content, content, String(pieceBytes));
  }
});

test("an empty file is a file", async () => {
  const form = new FormData();
  form.set("file", new Blob([]), "none");
  assert.deepEqual(await read(form, 9), {
    fields: {},
    file: { field: "file", name: "none" },
    content: Buffer.alloc(0),
  });
});

test("forms that are none are refused", async () => {
  const part = (head: string) => `--b\r\n${head}\r\n\r\ntext\r\n`;
  const named = 'Content-Disposition: form-data; name="a"';
  for (const [text, message] of [
    ["", /ends before/],
    [part(named), /ends before/],
    [`${part(named)}--b`, /ends before/],
    [`--bx${part(named)}`, /line's end/],
    [`${part("Content-Type: text/plain")}--b--`, /no name/],
    [`${part(`${named}; filename="f"`)}${part(`${named}; filename="g"`)}--b--`, /more than one file/],
    [part("x".repeat(20_000)), /too long/],
    [`--b\r\n${named}\r\n\r\n${"x".repeat(70_000)}\r\n--b--`, /longer than/],
  ] as const)
    await assert.rejects(read(text, 1000, "b"), { message }, text.slice(0, 40));
  assert.deepEqual(
    ["multipart/form-data; boundary=a", 'multipart/form-data; boundary="a b"', "text/plain", undefined].map(boundaryOf),
    ["a", "a b", null, null],
  );
});
