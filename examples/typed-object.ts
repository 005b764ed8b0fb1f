// A zod schema goes in, a typed value comes out.
import { createEngine } from "pagoda";
import { z } from "zod";

await using engine = await createEngine();
const Dragon = z.object({
  name: z.string().max(12),
  color: z.enum(["red", "green", "golden"]),
  age: z.int().min(1).max(999),
  likes: z.array(z.string().max(10)).max(3),
});
const { object, usage } = await engine.object({
  messages: [{ role: "user", content: "Describe a dragon." }],
  schema: Dragon,
  seed: 7,
});
console.log(`${object.name} is ${object.color} and ${object.age} years old. (${usage.completionTokens} tokens)`);
console.log(JSON.stringify(object));
