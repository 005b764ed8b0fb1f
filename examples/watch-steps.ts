// Watches the engine batch: every step is one forward over chunks of prompts and any number of decodes, without padding.
import { createEngine } from "pagoda";

await using engine = await createEngine({ pageSize: 16, maxPagesPerBatch: 8, idealChunk: 32 });
const watching = new AbortController();
const watch = (async () => {
  for await (const step of engine.inspect.steps({ signal: watching.signal })) {
    const rows = step.rows.map((row) => `${row.isPrefill ? "prefill" : "decode"} ${row.queryLen}`).join(", ");
    console.log(`step ${step.step}: ${step.tokens} tokens (${rows}), padding avoided ${step.paddingAvoided}`);
  }
})();

const prompts = ["Tell me a story.", "One day, a boy named Tim went to the park with his dog. ".repeat(6)];
await Promise.all(prompts.map((prompt) => engine.generate(prompt, { maxTokens: 24, ignoreEos: true }).result()));
watching.abort();
await watch;
