// Many questions over one long text: the text is computed once, the prefix cache shares its pages between the requests.
import { createEngine } from "pagoda";

await using engine = await createEngine();
const story = "Once upon a time there was a small boat on a big lake. The boat had one friend, a fish. ".repeat(4);
const questions = ["Who is the friend?", "Where is the boat?", "Tell me what happens then."];

await engine.generate(story, { maxTokens: 1 }).result(); // warms the cache
const answers = await Promise.all(
  questions.map((question) => engine.generate(`${story}${question}`, { maxTokens: 24, temperature: 0 }).result()),
);
for (const [i, { text, trace }] of answers.entries()) {
  console.log(`${questions[i]} ${text.trim()}`);
  console.log(`  ${trace.cachedTokens} of ${trace.promptTokens} prompt tokens came from the cache`);
}
