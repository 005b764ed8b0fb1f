import assert from "node:assert/strict";
import { test } from "node:test";
import { askedServer } from "./ask-server.js";

test("keys of this machine go to this machine only, one of them; a key that is named goes where it was told to", () => {
  const keyFor = (url?: string, apiKey?: string) => askedServer({ url, apiKey }, "first,second").key;
  assert.equal(keyFor(), "first");
  for (const url of ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:9000"])
    assert.equal(keyFor(url), "first");
  for (const url of [
    "https://example.com",
    "http://127.0.0.1.example.com",
    "http://10.0.0.1",
    "http://localhost@example.com",
  ])
    assert.equal(keyFor(url), undefined, url);
  assert.equal(keyFor("https://example.com", "named"), "named");
});
