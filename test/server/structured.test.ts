// Random schemas, the bundled model at temperature 1, many at once: every answer parses and validates. PAGODA_TRIALS sets how
// many (1000 is the claim; fewer by default, since most of the time goes into compiling ever new schemas).

import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { seeded } from "../support/byte-matcher.js";
import { randomSchema } from "../support/random-schema.js";
import { startServer } from "../support/test-server.js";

const TRIALS = Number(process.env.PAGODA_TRIALS ?? 60);

test(`${TRIALS} random schemas: every answer parses and validates, or says that it was cut`, async () => {
  await using host = await startServer();
  const random = seeded(2024);
  const schemas = Array.from({ length: TRIALS }, () => randomSchema(random));
  let next = 0;
  let valid = 0;
  const worker = async (): Promise<void> => {
    while (next < schemas.length) {
      const i = next++;
      const schema = schemas[i]!;
      const reply = await host.client.chat.completions.create({
        model: host.engine.model.name,
        messages: [{ role: "user", content: "Tell me." }],
        temperature: 1,
        top_p: 1,
        seed: i,
        response_format: { type: "json_schema", json_schema: { name: "thing", strict: true, schema } },
      });
      const { finish_reason, message } = reply.choices[0]!;
      assert.equal(finish_reason, "stop", `${JSON.stringify(schema)}\n${message.content}`);
      const checked = z.fromJSONSchema(schema as z.core.JSONSchema.BaseSchema).safeParse(JSON.parse(message.content!));
      assert.ok(checked.success, `${JSON.stringify(schema)}\n${message.content}\n${checked.error}`);
      valid++;
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  assert.equal(valid, TRIALS);
});
