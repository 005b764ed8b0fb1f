// Semantic search: documents by how near their vectors are to the query's. Give it an embedding model (a folder, a .gguf file or a
// hub id such as google/embeddinggemma-300m) as its argument; the bundled model tells stories and knows little of meaning.

import { createEngine } from "pagoda";

const documents = ["The dog sleeps by the fire.", "Lily has a red ball.", "It rains, and the garden is wet."];
const query = process.argv[3] ?? "A girl plays with a ball.";
const model = process.argv[2];

await using engine = await createEngine(model === undefined ? {} : { model });
const { vectors } = await engine.embed(documents, { normalize: true, inputType: "document" });
const [asked] = (await engine.embed([query], { normalize: true, inputType: "query" })).vectors;

const ranked = documents
  .map((text, i) => ({ text, score: vectors[i]!.reduce((sum, value, d) => sum + value * asked![d]!, 0) }))
  .sort((a, b) => b.score - a.score);
for (const { text, score } of ranked) console.log(score.toFixed(3), text);
