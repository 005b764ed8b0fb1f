// Traces, as a collector receives them.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { startServer, until } from "../support/test-server.js";

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly {
    key: string;
    value: { stringValue?: string; intValue?: string; doubleValue?: number };
  }[];
  readonly status: { code?: number };
}

async function startCollector() {
  const spans: SentSpan[] = [];
  const paths: string[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    paths.push(request.url!);
    spans.push(...JSON.parse(text).resourceSpans[0].scopeSpans[0].spans);
    response.writeHead(200).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { spans, paths, url, close: () => new Promise((resolve) => server.close(resolve)) };
}

const attributeOf = ({ attributes }: SentSpan, key: string) => {
  const value = attributes.find((attribute) => attribute.key === key)?.value;
  return (
    value?.stringValue ?? value?.doubleValue ?? (value?.intValue === undefined ? undefined : Number(value.intValue))
  );
};

test("each request is a span with its tokens and times, below its caller's where that is recorded", async () => {
  const collector = await startCollector();
  const [trace, parent] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
  {
    await using host = await startServer({}, { otlpEndpoint: collector.url });
    const body = { messages: [{ role: "user", content: "Tell me." }], max_tokens: 3 };
    const ask = async (more: object, traceparent?: string) =>
      (
        await host.post("/v1/chat/completions", { ...body, ...more }, traceparent === undefined ? {} : { traceparent })
      ).text();
    await ask({}, `00-${trace}-${parent}-01`);
    await ask({ stream: true });
    await ask({}, `00-${trace}-${parent}-00`);
    await ask({ max_tokens: "many" }, "nonsense");
    await until(() => collector.spans.length >= 3, "three spans are there");
  }
  assert.equal(collector.spans.length, 3, "who is not recorded is not sent");
  assert.ok(collector.paths.every((path) => path === "/v1/traces"));
  const [whole, streamed, refused] = collector.spans as [SentSpan, SentSpan, SentSpan];
  assert.deepEqual([whole.traceId, whole.parentSpanId, whole.name], [trace, parent, "POST /v1/chat/completions"]);
  assert.deepEqual([streamed.parentSpanId, /^[0-9a-f]{32}$/.test(streamed.traceId)], [undefined, true]);
  for (const span of [whole, streamed]) {
    assert.equal(attributeOf(span, "http.response.status_code"), 200);
    assert.equal(attributeOf(span, "gen_ai.usage.output_tokens"), 3);
    assert.ok((attributeOf(span, "gen_ai.usage.input_tokens") as number) > 3);
    const seconds = Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e9;
    assert.ok(seconds >= (attributeOf(span, "gen_ai.latency.time_to_first_token") as number) && seconds < 200);
  }
  assert.deepEqual(
    [attributeOf(refused, "http.response.status_code"), attributeOf(refused, "error.type")],
    [400, "invalid_value"],
  );
  await collector.close();
});

test("a collector that is not there costs nothing but the traces, and is told of once", async () => {
  const said: string[] = [];
  const logger = {
    debug() {},
    info() {},
    error() {},
    warn: (_: object, text: string) => void said.push(text),
    child: () => logger,
  };
  {
    await using host = await startServer({}, { otlpEndpoint: "http://127.0.0.1:9/v1/traces", logger });
    for (let i = 0; i < 3; i++) {
      assert.equal((await fetch(`${host.url}/health`)).status, 200);
      await host.server.context.tracer!.flush();
    }
  }
  assert.equal(said.length, 1);
});
