// Clients that mean ill, one way each. None of them deserves an answer of 5xx: what they send is wrong, or lawful and merely dear.

import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";

/** The status of the answer; "left" when the client went before there was one, "cut" when the server ended the connection. */
export type Outcome = number | "left" | "cut";

/** Where it is aimed, and from which address. */
export interface Target {
  readonly url: string;
  readonly address?: string | undefined;
}

type Attack = (target: Target, random: () => number, signal: AbortSignal) => Promise<Outcome>;

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user", content: "hello" }];
const DEEP = 50_000;
const DEEP_JSON = Buffer.from(`{"messages": ${"[".repeat(DEEP)}${"]".repeat(DEEP)}}`);
const MAX_WORDS = 700_000;
const WORDS = Buffer.from("word ".repeat(MAX_WORDS)); // made once: what an attack costs the attacker is not measured here
const NUMBERS = Buffer.from(
  `{"messages": [{"role": "user", "content": "hello"}], "odd": [${"1,".repeat(2_090_000)}1]}`,
);
const EMPTY_MESSAGES = Buffer.from(`{"messages": [${'{"role": "user", "content": ""}, '.repeat(50_000)}null]}`);
const MANY_BIASES = JSON.stringify(Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [i, i % 7])));
const MANY_INPUTS = Array.from({ length: 2048 }, (_, i) => `${i} once`);
const LOOKS = ["/api/cache", "/api/steps?format=json", "/api/stats", "/api/plan/1", "/metrics", "/v1/models"];
const whole = (random: () => number): number => Math.floor(random() * 1e9);

function post(
  { url, address }: Target,
  path: string,
  body: string | Buffer,
  read: (response: IncomingMessage, leave: () => void) => void = (response) => response.resume(),
): Promise<Outcome> {
  return new Promise((resolve) => {
    let outcome: Outcome = "cut";
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", agent: false, headers, localAddress: address } as const;
    const call = request(url + path, init, (response) => {
      outcome = response.statusCode!;
      response.on("error", () => undefined);
      response.on("close", () => resolve(outcome));
      read(response, () => call.destroy());
    });
    call.on("error", () => resolve(outcome));
    call.end(body);
  });
}

function get({ url, address }: Target, path: string): Promise<Outcome> {
  return new Promise((resolve) => {
    let outcome: Outcome = "cut";
    const call = request(url + path, { agent: false, localAddress: address }, (response) => {
      outcome = response.statusCode!;
      response.on("error", () => undefined);
      response.on("close", () => resolve(outcome));
      response.resume();
    });
    call.on("error", () => resolve(outcome));
    call.end();
  });
}

/** Many at once; the worst of their ends. */
async function all(calls: readonly Promise<Outcome>[]): Promise<Outcome> {
  const ends = await Promise.all(calls);
  return ends.find((end) => typeof end === "number" && end >= 500) ?? ends[0]!;
}

function longChat(numWords: number): Buffer {
  const head = Buffer.from('{"max_tokens": 4, "messages": [{"role": "user", "content": "');
  return Buffer.concat([head, WORDS.subarray(0, 5 * numWords), Buffer.from('"}]}')]);
}

const chat = (target: Target, extra: object): Promise<Outcome> =>
  post(target, CHAT, JSON.stringify({ messages, max_tokens: 4, ...extra }));

/** `ms` of waiting that the end of the run shortens. */
function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

/** Sends its bytes in drops, and never all of them. */
async function drip({ url, address }: Target, text: string, signal: AbortSignal): Promise<Outcome> {
  const { hostname, port } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, localAddress: address });
  let outcome: Outcome = "left";
  socket.on("error", () => undefined);
  socket.on("data", (bytes) => {
    outcome = Number(/^HTTP\/1\.1 (\d+)/.exec(bytes.toString("latin1"))?.[1] ?? 0);
  });
  socket.on("close", () => {
    if (outcome === "left") outcome = "cut";
  });
  for (let i = 0; i < text.length && !signal.aborted && !socket.destroyed; i++) {
    socket.write(text[i]!);
    await rest(50, signal);
  }
  const seen = outcome;
  socket.destroy();
  return seen;
}

const head = ({ url }: Target): string => `POST ${CHAT} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n`;

export const ATTACKS: Readonly<Record<string, Attack>> = {
  "headers in drops": (target, _, signal) => drip(target, `${head(target)}X-Slow: ${"x".repeat(1000)}`, signal),
  "body in drops": (target, _, signal) =>
    drip(target, `${head(target)}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"messages": [`, signal),
  "regex without end": (target, random) =>
    chat(target, { guided_regex: `(.|..|...){${200 + (whole(random) % 3000)}}x`.repeat(1 + (whole(random) % 12)) }),
  "grammar without end": (target, random) =>
    chat(target, {
      guided_grammar: pick(random, [
        "root ::= root",
        `root ::= a\na ::= b a | b\nb ::= a | "${whole(random)}"`,
        `root ::= ${"(".repeat(DEEP)}"x"${")".repeat(DEEP)}`,
        `root ::= ("${whole(random)}" | [a-z]*){2000} "x"`,
      ]),
    }),
  "schema without end": (target, random) => {
    const text = { type: "string", pattern: `(.|..|...){${200 + (whole(random) % 3000)}}x`.repeat(6) };
    const parameters = { type: "object", properties: { text }, required: ["text"] };
    const tools = [{ type: "function", function: { name: "f", parameters } }];
    return random() < 0.5
      ? chat(target, { tools, tool_choice: "required" })
      : chat(target, { guided_json: parameters });
  },
  "deep JSON": (target) => post(target, CHAT, DEEP_JSON),
  "prompts too long": (target, random) => post(target, CHAT, longChat(whole(random) % MAX_WORDS)),
  "prompts as long as can be": (target, random) =>
    chat(target, { messages: [{ role: "user", content: `${whole(random)} ${"once upon a time ".repeat(100)}` }] }),
  "answers cut short": (target, random) => {
    const after = Math.floor(random() * 4000);
    const body = { messages, stream: true, max_tokens: 2000, ignore_eos: true, seed: whole(random) };
    return post(target, CHAT, JSON.stringify(body), (response, leave) => {
      let length = 0;
      response.on("data", (piece: Buffer) => {
        length += piece.length;
        if (length > after) leave();
      });
    });
  },
  "wrong types": (target, random) => chat(target, pick(random, WRONG)),
  "answers not read": (target, random, signal) => {
    const body = { messages, stream: true, max_tokens: 100_000, ignore_eos: true, logprobs: true, top_logprobs: 20 };
    return post(target, CHAT, JSON.stringify({ ...body, seed: whole(random) }), (response, leave) => {
      response.pause();
      void rest(5000, signal).then(leave);
    });
  },
  "many samples": (target, random) => chat(target, { n: 16, max_tokens: 50, seed: whole(random), temperature: 1 }),
  "priorities before others": (target, random) =>
    chat(target, { priority: Number.MIN_SAFE_INTEGER, max_tokens: 50, seed: whole(random), ignore_eos: true }),
  "looks at everything": (target, random) => all(Array.from({ length: 10 }, () => get(target, pick(random, LOOKS)))),
  "texts to tokenise": (target, random) => {
    const text = `${whole(random)} ${WORDS.toString("latin1", 0, 4_000_000)}`;
    if (random() < 0.5) return post(target, "/tokenize", JSON.stringify({ prompt: text }));
    return post(target, "/v1/messages/count_tokens", JSON.stringify({ messages: [{ role: "user", content: text }] }));
  },
  "numbers of 4 MiB": (target) => post(target, CHAT, NUMBERS),
  "too many empty messages": (target) => post(target, CHAT, EMPTY_MESSAGES),
  "as many empty messages as may be": (target) =>
    chat(target, { messages: Array.from({ length: 8000 }, () => ({ role: "user", content: "" })) }),
  "too many biases": (target) => post(target, CHAT, `{"messages": [], "logit_bias": ${MANY_BIASES}}`),
  "many embeddings": (target, random) =>
    post(target, "/v1/embeddings", JSON.stringify({ input: MANY_INPUTS.map((text) => `${text} ${whole(random)}`) })),
  "white space beside tools": (target, random) => {
    const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];
    // Whatever else it may say is far less likely than the tokens that a biased few are.
    const logit_bias = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [whole(random) % 500, i % 2 ? 100 : -100]),
    );
    return chat(target, { tools, logit_bias, n: 8, max_tokens: 300, ignore_eos: true, seed: whole(random) });
  },
  "files of the server": (target, random) =>
    post(
      target,
      pick(random, ["/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/api/show", CHAT]),
      JSON.stringify(
        pick(random, [
          { lora_name: "x", lora_path: "/etc/passwd" },
          { lora_name: "../../x" },
          { model: "/etc/passwd" },
          { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///etc/passwd" } }] }] },
        ]),
      ),
    ),
};

const WRONG: readonly object[] = [
  { messages: {} },
  { messages: [null] },
  { messages: [{ role: "user", content: 5 }] },
  { temperature: "hot" },
  { max_tokens: -1 },
  { stop: [1] },
  { logit_bias: { a: [] } },
  { tools: "all" },
  { response_format: { type: "json_schema", json_schema: { schema: { type: "objekt" } } } },
  { n: 1e9 },
  { stream: "yes" },
  { unknown: true },
];

function pick<T>(random: () => number, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!;
}

/** How often each attack ended how. */
export type Tally = Map<string, Map<Outcome, number>>;

/** One attack after another of one kind, at most one every `everyMs`, until the signal. */
export async function hostileClient(
  target: Target,
  name: string,
  tally: Tally,
  { random, signal, everyMs = 100 }: { random: () => number; signal: AbortSignal; everyMs?: number },
): Promise<void> {
  const outcomes = tally.get(name) ?? new Map<Outcome, number>();
  tally.set(name, outcomes);
  while (!signal.aborted) {
    const next = rest(everyMs, signal);
    const outcome = await ATTACKS[name]!(target, random, signal);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    await next;
  }
}

/** Answers that say the server is at fault. */
export function numFaults(tally: Tally): number {
  let count = 0;
  for (const outcomes of tally.values())
    for (const [outcome, times] of outcomes) if (typeof outcome === "number" && outcome >= 500) count += times;
  return count;
}
