// The official OpenAI client against a Pagoda server. Here the server runs in the same program; usually it is `pagoda serve`.
import OpenAI from "openai";
import { createEngine, createServer } from "pagoda";

await using engine = await createEngine();
await using server = createServer(engine, { port: 0, logLevel: "silent" });
const { url } = await server.listen();

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "unused" });
const stream = await client.chat.completions.create({
  model: engine.model.name,
  messages: [{ role: "user", content: "Tell me a story about a dragon." }],
  max_tokens: 60,
  temperature: 0,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? "");
  if (chunk.usage) console.log(`\n(${chunk.usage.prompt_tokens} + ${chunk.usage.completion_tokens} tokens)`);
}
