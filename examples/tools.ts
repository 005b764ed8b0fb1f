// The model calls two functions, and its answer ends as a typed value. The program of the README.
import { createEngine } from "pagoda";
import { z } from "zod";

const engine = await createEngine(process.argv[2] === undefined ? {} : { model: process.argv[2] });
const city = z.object({ city: z.string() });
const run = await engine.run("Which is warmer, Rome or Oslo, and by how much?", {
  tools: {
    temperature: { description: "of a city, in °C", parameters: city, execute: ({ city }) => city.length * 4 },
    subtract: { parameters: z.object({ a: z.number(), b: z.number() }), execute: ({ a, b }) => a - b },
  },
  maxTokens: 200,
});
const schema = z.object({ warmer: z.enum(["Rome", "Oslo"]), degrees: z.number().int() });
const { object } = await engine.object({ messages: `Summarise: ${run.text.slice(0, 200)}`, schema, maxTokens: 60 });
console.log(`${object.warmer} is warmer by ${object.degrees} degrees.`);
await engine.close();
