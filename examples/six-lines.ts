// The program of the README.
import { createEngine } from "pagoda";

const engine = await createEngine();
const answer = engine.chat("Tell me a story about a dragon.");
for await (const chunk of answer) process.stdout.write(chunk.text);
await engine.close();
