// The Vercel AI SDK against a Pagoda server: text, then a tool whose arguments are valid under its schema.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, tool } from "ai";
import { createEngine, createServer } from "pagoda";
import { z } from "zod";

await using engine = await createEngine();
await using server = createServer(engine, { port: 0, logLevel: "silent" });
const { url } = await server.listen();

const model = createOpenAICompatible({ name: "pagoda", baseURL: `${url}/v1` })(engine.model.name);
const { text } = await generateText({ model, prompt: "Tell me about a cat.", maxOutputTokens: 40, temperature: 0 });
console.log(text);

const feed = tool({
  description: "Feed an animal",
  inputSchema: z.object({ animal: z.enum(["cat", "dog", "dragon"]), grams: z.int().min(1).max(500) }),
  execute: async ({ animal, grams }) => `The ${animal} ate ${grams} g.`,
});
const { toolResults } = await generateText({ model, prompt: "Feed it.", tools: { feed }, toolChoice: "required" });
for (const { output } of toolResults) console.log(output);
