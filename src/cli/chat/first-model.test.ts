import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startHub } from "../../../test/support/hub-server.js";
import { pull } from "../../formats/hub/hub-pull.js";
import { chosenBy, type Machine, type Offer, offersFor, offerText, recommended } from "./first-model.js";

const MACHINE: Machine = { device: "cpu: two threads", memoryBytes: 8 * 2 ** 30, bytesPerSecond: 20e9 };
const REPO = "unsloth/Qwen3-0.6B-GGUF";
const FILE = "Qwen3-0.6B-Q4_K_M.gguf";

test("offers what the hub has and what is pulled, where it fits; nothing without either", async (t) => {
  const cache = mkdtempSync(join(tmpdir(), "pagoda-offers-"));
  const hub = await startHub({ [FILE]: "weights" }, REPO);
  t.after(async () => {
    await hub.close();
    rmSync(cache, { recursive: true });
  });
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache };
  assert.deepEqual(await offersFor(MACHINE, { ...env, HF_ENDPOINT: "http://127.0.0.1:9" }), []);
  const sha = "a".repeat(64);
  const entry = { type: "file", path: FILE, oid: "b".repeat(40) };
  const ofSize = (size: number) => [{ ...entry, size, lfs: { oid: sha, size, pointerSize: 130 } }];
  hub.faults.tree = ofSize(4e8);
  const [offer, ...others] = await offersFor(MACHINE, env);
  assert.deepEqual(others, [], "the hub has no other");
  assert.deepEqual(
    [offer!.spec, offer!.bytes, offer!.isPulled, offer!.tokensPerSecond],
    [`${REPO}:Q4_K_M`, 4e8, false, 50],
  );
  assert.deepEqual(await offersFor({ ...MACHINE, memoryBytes: 5e8 }, env), [], "no room beside it");
  delete hub.faults.tree;
  await pull(offer!.spec, { env });
  const [pulled] = await offersFor(MACHINE, { ...env, HF_ENDPOINT: "http://127.0.0.1:9" });
  assert.deepEqual([pulled!.spec, pulled!.bytes, pulled!.isPulled], [offer!.spec, 7, true], "without the hub too");
});

test("recommends the largest that is quick enough to read along, and reads the answer", () => {
  const offer = (spec: string, tokensPerSecond: number | null): Offer => ({
    ...{ spec, about: "fine", bytes: 2 ** 30, isPulled: false, tokensPerSecond },
  });
  const offers = [offer("a/a", 90), offer("a/b", 21), offer("a/c", 5.23)];
  assert.equal(recommended(offers), 1);
  assert.equal(recommended(offers.slice(2)), 0);
  assert.equal(recommended([offer("a/a", null), offer("a/b", null)]), 1);
  assert.deepEqual(
    ["", " 3 ", "0", "4", "x", "-1"].map((answer) => chosenBy(answer, offers)),
    ["a/b", "a/c", null, undefined, undefined, undefined],
  );
  assert.match(offerText(offers, MACHINE), /\n {2}3 {2}a\/c +1\.0 GiB {2}up to 5\.2 tokens\/s {4}fine\n {2}0 /);
});
