// Conversations with pictures through the library: what prompts say in their places for each family, where pictures may come from, what is
// refused, and that it is all the same whoever prepares them.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { engineConfig } from "../src/config/engine-config.js";
import { openChatCheckpoint } from "../src/engine/client/chat-checkpoint.js";
import { ClientEyes } from "../src/engine/client/pictures/eyes.js";
import { PictureFetcher } from "../src/engine/client/pictures/fetch-picture.js";
import { isPublicAddress } from "../src/engine/client/pictures/public-address.js";
import type { SeenPicture } from "../src/engine/client/pictures/seen-picture.js";
import type { EngineFacts } from "../src/engine/messages.js";
import { asServed, type PromptMessage } from "../src/engine/served-engine.js";
import {
  type ChatMessage,
  createEngine,
  type Engine,
  type EngineConfig,
  type ImageSource,
  PagodaError,
} from "../src/index.js";
import { SEEING_FAMILIES, seeingCheckpoint } from "./support/seeing-checkpoint.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const OWN = "test/goldens-vision/qwen3vl";
const SHARED = "../shared/goldens-vision";
const PICTURES = [0, 1].map((i) => new Uint8Array(readFileSync(join(OWN, `image-2-${i}.png`))));
const [FIRST, SECOND] = PICTURES as [Uint8Array, Uint8Array];
const model = seeingCheckpoint(OWN, "qwen3vl");
const OPTIONS = { device: "reference", numPages: 120, kvDtype: "f32", seed: 1 } as const;
const INSIDE = { ...OPTIONS, worker: false } as const;
const ASKED = { maxTokens: 6, temperature: 0, ignoreEos: true } as const;

const engine = await createEngine({ ...OPTIONS, model });
after(() => engine.close());

const asks = (text: string, ...images: ImageSource[]): ChatMessage[] => [
  { role: "user", content: [...images.map((image) => ({ type: "image" as const, image })), { type: "text", text }] },
];
const dataUrl = (bytes: Uint8Array, type = "image/png"): string =>
  `data:${type};base64,${Buffer.from(bytes).toString("base64")}`;

async function promptOf(engine: Engine, messages: readonly ChatMessage[]) {
  const own = asServed(engine);
  const prompt = own.renderPrompt(await own.prepareImages(messages as readonly PromptMessage[]));
  const ids = own.tokenizer.encode(prompt.text, { addSpecialTokens: false, content: prompt.content });
  return { ...prompt, ids };
}

const fails = (code: string, param?: string) => (error: unknown) => {
  assert.ok(error instanceof PagodaError, String(error));
  assert.equal(error.code, code);
  if (param !== undefined) assert.equal(error.details.param, param);
  return true;
};

/** What stands for the golden's two pictures, by family. */
const EXPANDED: Readonly<Record<string, readonly [string, string]>> = {
  qwen3vl: [
    `<|vision_start|>${"<|image_pad|>".repeat(4)}<|vision_end|>`,
    `<|vision_start|>${"<|image_pad|>".repeat(6)}<|vision_end|>`,
  ],
  qwen25vl: [
    `<|vision_start|>${"<|image_pad|>".repeat(4)}<|vision_end|>`,
    `<|vision_start|>${"<|image_pad|>".repeat(6)}<|vision_end|>`,
  ],
  qwen35vl: [
    `<|vision_start|>${"<|image_pad|>".repeat(4)}<|vision_end|>`,
    `<|vision_start|>${"<|image_pad|>".repeat(6)}<|vision_end|>`,
  ],
  llava: [`${"<image>".repeat(16)}\n`, `${"<image>".repeat(16)}\n`],
  mistral3: [
    "[IMG][IMG][IMG_BREAK][IMG][IMG][IMG_END]",
    "[IMG][IMG][IMG_BREAK][IMG][IMG][IMG_BREAK][IMG][IMG][IMG_END]",
  ],
  gemma3: Array(2).fill(`\n\n<start_of_image>${"<image_soft_token>".repeat(4)}<end_of_image>\n\n`) as unknown as [
    string,
    string,
  ],
  gemma4: [`\n\n<|image>${"<|image|>".repeat(64)}<image|>\n\n`, `\n\n<|image>${"<|image|>".repeat(55)}<image|>\n\n`],
  internvl: Array(2).fill("") as unknown as [string, string], // with tiles: below
  smolvlm: Array(2).fill(
    `<fake_token_around_image><global-img>${"<image>".repeat(4)}<fake_token_around_image>`,
  ) as unknown as [string, string],
};

for (const family of Object.keys(SEEING_FAMILIES)) {
  const golden = family === "qwen3vl" ? OWN : join(SHARED, family);
  test(`${family}: a prompt has its pictures as the family's processor writes them`, {
    skip: !existsSync(golden) && "no goldens",
  }, async () => {
    await using own = await createEngine({ ...INSIDE, model: seeingCheckpoint(golden, family) });
    const messages: ChatMessage[] = [{ role: "system", content: "Look." }, ...asks("Which?", FIRST, SECOND)];
    const { text, ids, pictures } = await promptOf(own, messages);
    const [first, second] = EXPANDED[family]!;
    if (family !== "internvl")
      assert.equal(text, `<|system|>Look.<eos><|user|>${first}${second}Which?<eos><|assistant|>`);
    const { samples, trace } = await own.generate(messages, ASKED).result();
    const other = await asServed(own)
      .submit(ids, { ...ASKED, pictures })
      .result();
    assert.deepEqual(samples[0]!.tokenIds, other.samples[0]!.tokenIds);
    assert.equal(trace.promptTokens, ids.length);
    const text2 = await own.generate([{ role: "user", content: "Hello" }], ASKED).result();
    assert.ok((await own.renderChat("Hello")).includes("Hello"));
    assert.equal(text2.samples[0]!.tokenIds.length, 6);
  });
}

test("tiles say where they are, and the whole picture comes last", {
  skip: !existsSync(SHARED) && "no goldens",
}, async () => {
  const tiled = seeingCheckpoint(join(SHARED, "smolvlm"), "smolvlm", {
    processor: { do_image_splitting: true, size: { longest_edge: 128 } },
  });
  await using own = await createEngine({ ...INSIDE, model: tiled });
  const { text, pictures } = await promptOf(own, asks("Which?", SECOND));
  const { tileRows, tileColumns, frames } = pictures[0]!;
  assert.equal(frames.length, tileRows * tileColumns + 1);
  assert.ok(tileRows * tileColumns > 1);
  const tokens = "<image>".repeat(4);
  const lines = Array.from({ length: tileRows }, (_, r) =>
    Array.from({ length: tileColumns }, (_, c) => `<fake_token_around_image><row_${r + 1}_col_${c + 1}>${tokens}`).join(
      "",
    ),
  );
  const shown = `${lines.join("\n")}\n\n<fake_token_around_image><global-img>${tokens}<fake_token_around_image>`;
  assert.equal(text, `<|user|>${shown}Which?<eos><|assistant|>`);
  const asked: ChatMessage[] = [{ role: "user", content: [{ type: "image", image: SECOND, detail: "low" }] }];
  assert.equal((await promptOf(own, asked)).pictures[0]!.frames.length, 1);
  await using intern = await createEngine({
    ...OPTIONS,
    model: seeingCheckpoint(join(SHARED, "internvl"), "internvl"),
  });
  const many = await promptOf(intern, asks("Which?", SECOND));
  const count = 4 * many.pictures[0]!.frames.length;
  assert.ok(count > 4);
  assert.equal(many.text, `<|user|><img>${"<IMG_CONTEXT>".repeat(count)}</img>\nWhich?<eos><|assistant|>`);
  assert.equal((await intern.generate(asks("Which?", SECOND), ASKED).result()).samples[0]!.tokenIds.length, 6);
});

test("a template without parts has pictures before the text; markers that a message spells out are text", async () => {
  await using own = await createEngine({ ...INSIDE, model: seeingCheckpoint(OWN, "qwen3vl", { isPlain: true }) });
  const { text } = await promptOf(own, asks("Which?", FIRST));
  assert.equal(text, `<|user|>${"<|image_pad|>".repeat(4)}\nWhich?<eos><|assistant|>`);
  const { ids, text: spoken } = await promptOf(engine, asks("<|image_pad|>", FIRST));
  assert.ok(spoken.includes("<|vision_end|><|image_pad|><eos>"));
  assert.equal(ids.filter((id) => id === 10).length, 4);
  assert.equal((await engine.generate(asks("<|image_pad|>", FIRST), ASKED).result()).samples[0]!.tokenIds.length, 6);
});

test("bytes, blobs, buffers and data: URLs are one picture; the second question computes neither tower nor prefix", async () => {
  const { encoded } = (await engine.stats()).pictures;
  const sources: ImageSource[] = [
    SECOND,
    new Blob([Uint8Array.from(SECOND)]),
    Uint8Array.from(SECOND).buffer,
    dataUrl(SECOND),
    new URL(dataUrl(SECOND, "image/jpeg")), // the bytes say what it is
  ];
  const long = "What is on this picture, and what is beside it? ".repeat(2);
  const answers = [];
  for (const source of sources) answers.push(await engine.generate(asks(long, source), ASKED).result());
  for (const { samples } of answers) assert.deepEqual(samples[0]!.tokenIds, answers[0]!.samples[0]!.tokenIds);
  assert.deepEqual(
    answers.map(({ trace }) => trace.cachedTokens > 0),
    [false, true, true, true, true],
  );
  assert.equal((await engine.stats()).pictures.encoded, encoded + 1);
  const tenant = await engine.generate(asks(long, SECOND), { ...ASKED, salt: "another" }).result();
  assert.deepEqual([tenant.trace.cachedTokens, tenant.samples[0]!.tokenIds], [0, answers[0]!.samples[0]!.tokenIds]);
});

test("in the caller's thread as in the engine's, streamed, forked, and as an object", async () => {
  await using inside = await createEngine({ ...INSIDE, model });
  const whole = await engine.generate(asks("Which?", FIRST, SECOND), { ...ASKED, n: 3 }).result();
  const other = await inside.generate(asks("Which?", FIRST, SECOND), { ...ASKED, n: 3 }).result();
  assert.deepEqual(
    other.samples.map(({ tokenIds }) => tokenIds),
    whole.samples.map(({ tokenIds }) => tokenIds),
  );
  let text = "";
  for await (const chunk of engine.generate(asks("Which?", FIRST, SECOND), ASKED)) text += chunk.text;
  assert.equal(text, whole.text);
  const [message] = asks("Which?", FIRST);
  const history: ChatMessage[] = [
    message!,
    { role: "assistant", content: "This one." },
    { role: "user", content: "Sure?" },
  ];
  assert.equal((await engine.generate(history, ASKED).result()).samples[0]!.tokenIds.length, 6);
});

test("pictures of requests under way have a limit in all: a request alone is served, the next comes later", async () => {
  const { facts } = engine as unknown as { facts: EngineFacts };
  let held = 0;
  const eyes = new ClientEyes(
    engineConfig({ ...INSIDE, model }),
    openChatCheckpoint(model),
    () => facts,
    () => held,
  );
  const messages = asks("?", FIRST, SECOND) as unknown as readonly PromptMessage[];
  const bytesOf = ([message]: readonly PromptMessage[]): number =>
    (message!.content as readonly { image?: SeenPicture }[])
      .flatMap(({ image }) => image?.frames ?? [])
      .reduce((sum, { pixels }) => sum + pixels.byteLength, 0);
  const bytes = bytesOf(await eyes.prepare(messages));
  held = 2 ** 30 - bytes;
  assert.equal(bytesOf(await eyes.prepare(messages)), bytes, "as much as there is room");
  held++;
  for (let i = 0; i < 3; i++) await assert.rejects(eyes.prepare(messages), fails("pictures_full"));
  held--;
  await eyes.prepare(messages); // what was refused is counted no longer
  const together = await Promise.allSettled([eyes.prepare(messages), eyes.prepare(messages)]);
  assert.ok(
    together.some(({ status }) => status === "rejected"),
    "two at once are counted together",
  );
  held = 0;
  await eyes.prepare(messages);
  await eyes.close();
});

test("what cannot be a picture is refused by code, and a call that was left is aborted", async () => {
  const refuses = (image: unknown, code: string, own: Engine = engine) =>
    assert.rejects(own.generate(asks("?", image as ImageSource), ASKED).result(), fails(code));
  await refuses(
    dataUrl(Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>"), "image/svg+xml"),
    "image_unsupported",
  );
  await refuses("data:image/png,abc", "image_unsupported");
  await refuses(FIRST.slice(0, 200), "image_corrupt");
  await refuses("http://127.0.0.1/x.png", "image_not_allowed");
  await refuses("ftp://example.com/x.png", "image_not_allowed");
  await refuses("file:///etc/passwd", "image_not_allowed");
  await refuses("not a url", "image_not_allowed");
  await refuses(7, "invalid_value");
  await assert.rejects(engine.generate(asks("?", ...Array(33).fill(FIRST)), ASKED).result(), fails("too_many_images"));
  await using small = await createEngine({ ...INSIDE, model, maxImageMb: 1, maxImageMegapixels: 1 });
  await refuses(new Uint8Array(2 ** 20 + 1), "image_too_large", small);
  await refuses(new Blob([new Uint8Array(2 ** 20 + 1)]), "image_too_large", small);
  await refuses(dataUrl(new Uint8Array(2 ** 20 + 1)), "image_too_large", small);
  await using blind = await createEngine({ ...INSIDE, model: writeTinyCheckpoint() });
  await refuses(FIRST, "no_eyes", blind);
  await using shut = await createEngine({ ...INSIDE, model, images: false });
  await refuses(FIRST, "no_eyes", shut);
  assert.throws(
    () => asServed(engine).renderPrompt(asks("?", FIRST) as unknown as readonly PromptMessage[]),
    fails("invalid_value", "messages"),
  );
  const gone = engine.generate(asks("?", FIRST), ASKED);
  gone.abort();
  await assert.rejects(gone.result(), fails("aborted"));
  const signal = AbortSignal.abort();
  await assert.rejects(engine.generate(asks("?", FIRST), { ...ASKED, signal }).result(), fails("aborted"));
  const { ids, pictures } = await promptOf(engine, asks("?", FIRST));
  assert.throws(
    () =>
      asServed(engine).submit(
        ids.filter((id) => id !== 10),
        { ...ASKED, pictures },
      ),
    fails("invalid_value", "prompt"),
  );
  assert.throws(() => asServed(engine).submit([...ids, 10], { ...ASKED, pictures }), fails("invalid_value", "prompt"));
  assert.equal((await engine.generate(asks("?", FIRST), ASKED).result()).samples[0]!.tokenIds.length, 6);
});

const fetcherOf = (
  options: Partial<ConstructorParameters<typeof PictureFetcher>[0]>,
  addresses: readonly string[] = [],
) =>
  new PictureFetcher({ domains: [], path: null, maxBytes: 2 ** 16, maxMs: 5000, ...options }, async () => [
    ...addresses,
  ]);

test("pictures come from allowed hosts alone, by the address that was looked at, without redirects and in bounds", async () => {
  const seen: string[] = [];
  const host = createHttpServer((request, response) => {
    seen.push(`${request.headers.host} ${request.url}`);
    if (request.url === "/away") response.writeHead(302, { location: "http://169.254.169.254/latest" }).end();
    else if (request.url === "/endless") {
      response.writeHead(200);
      const more = (): void => {
        if (!response.destroyed) response.write(Buffer.alloc(2 ** 14), () => setImmediate(more));
      };
      more();
    } else if (request.url === "/silent") return;
    else if (request.url === "/none") response.writeHead(404).end();
    else response.end(FIRST);
  });
  await new Promise<void>((resolve) => host.listen(0, "127.0.0.1", resolve));
  const { port } = host.address() as AddressInfo;
  const at = `127.0.0.1:${port}`;
  try {
    const allowed = fetcherOf({ domains: [at] });
    assert.deepEqual(new Uint8Array(await allowed.fetch(`http://${at}/a.png`)), FIRST);
    const refused = async (url: string, code: string, fetcher = allowed) =>
      assert.rejects(fetcher.fetch(url), fails(code));
    await refused(`http://${at}/away`, "image_not_fetched");
    await refused(`http://${at}/none`, "image_not_fetched");
    await refused(`http://${at}/endless`, "image_too_large");
    await refused(`http://${at}/silent`, "image_too_slow", fetcherOf({ domains: [at], maxMs: 200 }));
    const before = seen.length;
    await refused(`http://user@${at}/a.png`, "image_not_allowed");
    await refused("http://127.0.0.1/a.png", "image_not_allowed");
    await refused(`http://localhost:${port}/a.png`, "image_not_allowed");
    await refused(`http://0x7f.1:${port + 1}/a.png`, "image_not_allowed");
    await refused(`http://other.example\\@${at}/a.png`, "image_not_allowed");
    // Names are never let to private addresses, whoever allowed the name; one of several is enough to refuse.
    for (const addresses of [
      ["127.0.0.1"],
      ["93.184.216.34", "10.0.0.1"],
      ["::1"],
      ["::ffff:127.0.0.1"],
      ["64:ff9b::7f00:1"],
    ])
      await refused(
        `http://pictures.example:${port}/a.png`,
        "image_not_allowed",
        fetcherOf({ domains: [`.example:${port}`] }, addresses),
      );
    await refused(
      `http://pictures.example:${port}/`,
      "image_not_fetched",
      fetcherOf({ domains: [`.example:${port}`] }, []),
    );
    await refused(
      `http://example.evil:${port}/`,
      "image_not_allowed",
      fetcherOf({ domains: ["example", `.example:${port}`] }, []),
    );
    assert.equal(seen.length, before, "nothing was asked of the host");
  } finally {
    host.closeAllConnections();
    host.close();
  }
});

test("addresses of this machine, its neighbours and nobody are not public", () => {
  const privates =
    "127.0.0.1 10.1.2.3 172.16.0.1 172.31.255.255 192.168.0.1 169.254.169.254 0.0.0.0 100.64.0.1 224.0.0.1 255.255.255.255 198.18.0.1 :: ::1 fe80::1 fc00::1 fd12::1 ff02::1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:7f00:1:: 2001:db8::1 100::1 localhost".split(
      " ",
    );
  assert.deepEqual(privates.filter(isPublicAddress), []);
  for (const address of ["8.8.8.8", "172.32.0.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::1"])
    assert.ok(isPublicAddress(address), address);
});

test("files come from the allowed folder alone, links looked through", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-allowed-"));
  const outside = mkdtempSync(join(tmpdir(), "pagoda-outside-"));
  writeFileSync(join(folder, "a.png"), FIRST);
  writeFileSync(join(outside, "b.png"), FIRST);
  symlinkSync(join(outside, "b.png"), join(folder, "link.png"));
  const fetcher = fetcherOf({ path: folder });
  assert.deepEqual(new Uint8Array(await fetcher.fetch(pathToFileURL(join(folder, "a.png")).href)), FIRST);
  for (const path of [
    join(outside, "b.png"),
    join(folder, "link.png"),
    join(folder, "..", "x"),
    join(folder, "none.png"),
    folder,
    "/dev/zero",
  ])
    await assert.rejects(fetcher.fetch(pathToFileURL(path).href), fails("image_not_allowed"), path);
  await assert.rejects(fetcher.fetch(`file://${folder}%2f..%2fx`), fails("image_not_allowed"));
  if (spawnSync("mkfifo", [join(folder, "pipe.png")]).status === 0)
    await assert.rejects(fetcher.fetch(pathToFileURL(join(folder, "pipe.png")).href), fails("image_not_allowed"));
  await assert.rejects(
    fetcherOf({ path: folder, maxBytes: 10 }).fetch(pathToFileURL(join(folder, "a.png")).href),
    fails("image_too_large"),
  );
  const config: Partial<EngineConfig> = { allowedMediaPath: folder, allowedMediaDomains: ["example.com"] };
  await using own = await createEngine({ ...INSIDE, model, ...config });
  const answer = await own.generate(asks("Which?", pathToFileURL(join(folder, "a.png"))), ASKED).result();
  assert.equal(answer.samples[0]!.tokenIds.length, 6);
});

test("a model whose eyes are of a kind that is not served answers texts, and refuses pictures", async () => {
  const odd = seeingCheckpoint(OWN, "qwen3vl");
  const file = join(odd, "config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ ...config, vision_config: { ...config.vision_config, in_channels: 4 } }));
  await using own = await createEngine({ ...INSIDE, model: odd });
  assert.equal(own.model.hasEyes, false);
  assert.equal(
    (await own.generate([{ role: "user", content: "Hello" }], ASKED).result()).samples[0]!.tokenIds.length,
    6,
  );
  await assert.rejects(own.generate(asks("?", FIRST), ASKED).result(), fails("no_eyes"));
});
