// What models with several kinds of layers keep: window groups stay small however long a request grows, latent groups take what the
// formula says, and inspect tells of both.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "../src/cli/inspect.js";
import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import { loadEngine } from "../src/engine/core/load/load.js";

const PAGE = 16;
const CHUNK = 128;

/** A golden's checkpoint with another config: its tensors do not depend on what is changed, or are not loaded. */
function reshaped(golden: string, changes: Record<string, unknown>): string {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-groups-"));
  cpSync(golden, folder, { recursive: true });
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...changes }));
  return folder;
}

const WINDOWED = [
  { name: "Gemma 3", golden: "test/goldens/gemma3", window: 1024, hasFull: true },
  { name: "Mistral", golden: "test/goldens/variants/mistral-window", window: 4096, hasFull: false },
];

for (const { name, golden, window, hasFull } of WINDOWED) {
  test(`${name} at 8,000 tokens holds window + chunk + one page per row in its window group`, async () => {
    const model = reshaped(golden, { sliding_window: window, max_position_embeddings: 16_384 });
    const config = engineConfig({ model, device: "null", pageSize: PAGE, idealChunk: CHUNK, numPages: 2000 });
    const { core } = await loadEngine(config, () => {});
    const kinds = core.stats().cacheGroups.map(({ kind }) => kind);
    assert.deepEqual(kinds.toSorted(), hasFull ? ["full", "window"] : ["window"]);
    const w = kinds.indexOf("window");
    for (let r = 0; r < 3; r++) {
      const prompt = Int32Array.from({ length: 7_960 }, (_, i) => (i * 7 + r) % 200);
      const sampling = { ...SAMPLING_DEFAULTS, seed: r, maxTokens: 40, ignoreEos: true };
      core.add({
        type: "add",
        callId: `r${r}`,
        prompt,
        sampling,
        constraint: null,
        priority: 0,
        salt: "",
        kind: "generate",
        arrivalMs: 0,
      });
    }
    const most = Math.ceil((window + CHUNK) / PAGE) + 1;
    let largest = 0;
    let longest = 0;
    while (core.step()) {
      for (const { tables } of core.cacheSnapshot().requests) {
        const held = tables[w]?.length ?? 0;
        assert.ok(held <= most, `a row holds ${held} pages of the window, at most ${most}`);
        largest = Math.max(largest, held);
        if (hasFull) longest = Math.max(longest, tables[1 - w]?.length ?? 0);
      }
      core.takeOutputs();
      core.checkIntegrity();
    }
    assert.ok(largest >= window / PAGE, `${largest} pages held: the window was never full`);
    if (hasFull) assert.equal(longest, Math.ceil(8_000 / PAGE), "full attention keeps everything");
    assert.equal(core.stats().pagesUsed, 0);
    core.close();
  });
}

test("a DeepSeek golden takes (kv_lora_rank + rope) numbers a token and layer", async () => {
  const model = "test/goldens/deepseek-v3";
  const raw = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
  const report = await inspect(engineConfig({ model, device: "reference" }));
  assert.equal(report.pools.length, 1);
  assert.equal(report.pools[0]!.kind, "latent");
  const numbers = raw.num_hidden_layers * (raw.kv_lora_rank + raw.qk_rope_head_dim);
  assert.equal(report.pools[0]!.bytesPerToken, 4 * numbers);
});

test("inspect of a V3-shaped checkpoint shows 512 + 64 numbers instead of 128 x 320", async () => {
  const model = reshaped("test/goldens/deepseek-v3", {
    hidden_size: 7168,
    num_hidden_layers: 61,
    num_attention_heads: 128,
    num_key_value_heads: 128,
    q_lora_rank: 1536,
    kv_lora_rank: 512,
    qk_nope_head_dim: 128,
    qk_rope_head_dim: 64,
    v_head_dim: 128,
  });
  const report = await inspect(engineConfig({ model, device: "reference", numPages: 100 }));
  assert.equal(report.pools[0]!.bytesPerToken, 61 * (512 + 64) * 4);
  assert.equal(report.caches[0]!.expandedFloats, 128 * 320);
});
