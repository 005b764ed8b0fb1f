// The program of the README.
import { createEngine } from "pagoda";

const engine = await createEngine();
const messages = [{ role: "user", content: "Tell me a story about a dragon." }];
for await (const chunk of engine.chat(messages)) process.stdout.write(chunk.text);
await engine.close();
