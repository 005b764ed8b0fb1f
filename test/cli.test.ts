// The command as a user runs it: its own process, exit codes, one clear line for errors.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { completionScript } from "../src/cli/completion.js";
import { serverConfig } from "../src/config/server-config.js";
import { createEngine } from "../src/engine/client/engine.js";
import { createServer } from "../src/server/server.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const BIN = join(process.cwd(), "bin", "pagoda.js");
const BUNDLED = join(process.cwd(), "models", "pagoda-stories-16m");

function pagoda(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], {
    encoding: "utf8",
    timeout: 240_000,
  });
  return { status, stdout, stderr };
}

test("generate tells the golden story, greedily", () => {
  const golden = JSON.parse(readFileSync(join(BUNDLED, "golden.json"), "utf8")) as { cases: { greedy_text: string }[] };
  const { status, stdout } = pagoda(
    "generate",
    "Tell me a story about a dragon.",
    "--temperature",
    "0",
    "--max-tokens",
    "160",
  );
  assert.equal(status, 0);
  assert.equal(stdout.trimEnd(), golden.cases[0]!.greedy_text.trimEnd());
});

test("generate --json gives the result with its trace", () => {
  const model = writeTinyCheckpoint();
  const { status, stdout } = pagoda(
    "generate",
    "hi",
    "--model",
    model,
    "--max-tokens",
    "4",
    "--json",
    "--n",
    "2",
    "--ignore-eos",
  );
  assert.equal(status, 0);
  const result = JSON.parse(stdout) as { samples: unknown[]; trace: { completionTokens: number } };
  assert.equal(result.samples.length, 2);
  assert.equal(result.trace.completionTokens, 8);
});

test("generate takes the model before the prompt, and says when a context is longer than the model's", () => {
  const model = writeTinyCheckpoint();
  const rest = ["--raw", "--max-tokens", "4", "--temperature", "0", "--device", "reference"];
  const named = pagoda("generate", "hi", "--model", model, ...rest);
  const placed = pagoda("generate", model, "hi", ...rest, "--max-context", "100000");
  assert.deepEqual([placed.status, placed.stdout], [0, named.stdout]);
  assert.match(placed.stderr, /--max-context 100000: the model's context is \d+ tokens/);
  const missing = pagoda("generate", "./no-such.gguf", "hi");
  assert.deepEqual([missing.status, missing.stdout], [1, ""]);
  assert.match(missing.stderr, /No model at \.\/no-such\.gguf/);
});

test("chat answers turn by turn from a pipe and reuses the cache", async () => {
  const child = spawn(process.execPath, [BIN, "chat", "--max-tokens", "30", "--seed", "1"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let seen = "";
  child.stdout.on("data", (data: Buffer) => {
    seen += String(data);
  });
  const kept = join(mkdtempSync(join(tmpdir(), "pagoda-chat-")), "talk.json");
  child.stdin.end(
    `/help\nTell me a story about a cat.\n"""What\nthen?"""\n/regenerate\n/save ${kept}\n/reset\n/regenerate\n/load ${kept}\n/nonsense\n/stats\n/exit\n`,
  );
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0);
  assert.match(seen, /\/reset/);
  assert.match(seen, /\[\d+ prompt tokens, 0 cached; \d+ generated/);
  assert.match(seen, /\[\d+ prompt tokens, (16|32|48) cached;/);
  assert.match(seen, /Unknown command \/nonsense/);
  assert.match(seen, /2 turns kept in/);
  assert.match(seen, /There is no answer yet/);
  assert.match(seen, /2 turns from/);
  assert.match(seen, /^3 answers in \d+ steps: \d+ prompt tokens/m);
  assert.equal(JSON.parse(readFileSync(kept, "utf8"))[2].content, "What\nthen?");
});

test("chat --url talks to a server, and says when there is none", async (t) => {
  await using engine = await createEngine({ model: writeTinyCheckpoint(), worker: false });
  const server = createServer(engine, serverConfig({ port: 0, logLevel: "silent" }));
  const { url } = await server.listen();
  t.after(() => server.close(0));
  const child = spawn(process.execPath, [
    BIN,
    "chat",
    "--url",
    url,
    "--max-tokens",
    "8",
    "--temperature",
    "0",
    "--ignore-eos",
  ]);
  let seen = "";
  child.stdout.on("data", (data: Buffer) => {
    seen += String(data);
  });
  child.stdin.end("hello\n/stats\n");
  assert.equal(await new Promise((resolve) => child.once("close", resolve)), 0);
  assert.match(seen, /\[8 prompt tokens, \d+ cached; 8 generated at/);
  assert.match(seen, /metrics/);
  await server.close(0);
  const gone = pagoda("chat", "--url", url);
  assert.equal(gone.status, 2);
  assert.match(gone.stderr, /^pagoda: No server answers at .*pagoda serve/);
});

test("generate reads what is piped in, alone or where the command line says -", async () => {
  const model = writeTinyCheckpoint();
  const flags = ["--model", model, "-n", "4", "-t", "0", "--ignore-eos", "--raw", "--json"];
  const run = (input: string, ...words: string[]) =>
    JSON.parse(spawnSync(process.execPath, [BIN, "generate", ...words, ...flags], { encoding: "utf8", input }).stdout);
  await using engine = await createEngine({ model });
  const told = async (prompt: string) =>
    (await engine.generate(prompt, { maxTokens: 4, temperature: 0, ignoreEos: true }).result()).text;
  assert.equal(run("hello there\n").text, await told("hello there"));
  assert.equal(run("there", "hello", "-").text, await told("hello \n\nthere"));
  assert.equal(run("not looked at", "hello").text, await told("hello"));
});

test("completion scripts name every command, and bash can read its own", async () => {
  const bash = pagoda("completion", "bash").stdout;
  for (const name of ["serve", "chat", "bench", "--temperature", "--device", "throughput"])
    assert.ok(bash.includes(name));
  const ask = (line: string) => {
    const words = line.split(" ");
    const script = `${bash}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _pagoda; echo "\${COMPREPLY[@]}"`;
    return spawnSync("bash", ["-c", script], { encoding: "utf8" }).stdout.trim().split(" ");
  };
  assert.deepEqual(ask("pagoda gen"), ["generate"]);
  assert.deepEqual(ask("pagoda chat --temp"), ["--temperature"]);
  assert.ok(ask("pagoda serve --device re").includes("reference"));
  assert.match(await completionScript("zsh"), /^autoload -U \+X bashcompinit/);
  assert.match(await completionScript("fish"), /complete -c pagoda .*-s m -l model -r/);
  await assert.rejects(completionScript("tcsh"), { code: "wrong_usage" });
});

test("inspect predicts memory without loading", () => {
  const { status, stdout } = pagoda("inspect", "--json", "--device", "reference", "--num-pages", "100");
  assert.equal(status, 0);
  const report = JSON.parse(stdout) as Record<string, number>;
  assert.equal(report.parameters, 15_735_168);
  assert.equal(report.pageBytes, 8 * 2 * 2 * 16 * 64 * 4);
  assert.equal(report.poolBytes, 100 * report.pageBytes!);
  assert.equal(report.tokensThatFit, 99 * 16);
  const named = pagoda("inspect", "-m", join("test", "goldens", "llama"), "--device", "reference");
  assert.match(named.stdout, /^model +llama /);
  assert.equal(pagoda("inspect", "one", "--model", "another").status, 2, "which of them?");
});

test("verify passes on a model beside its golden and fails when one weight is changed", () => {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-verify-"));
  cpSync(join(process.cwd(), "test", "goldens", "llama"), folder, { recursive: true });
  assert.equal(pagoda("verify", folder).status, 0);

  const file = join(folder, "model.safetensors");
  const bytes = readFileSync(file);
  const headerLen = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + headerLen)) as Record<
    string,
    { data_offsets: [number, number] }
  >;
  // One weight of the final norm becomes 200 (bf16 0x4348): every logit feels it.
  bytes.writeUInt16LE(0x4348, 8 + headerLen + header["model.norm.weight"]!.data_offsets[0]);
  writeFileSync(file, bytes);
  const changed = pagoda("verify", folder);
  assert.equal(changed.status, 1, changed.stdout);
  assert.match(changed.stdout, /FAIL case/);
});

test("wrong commands, flags and models get one clear line and an exit code", () => {
  const [command, flag] = [pagoda("generat"), pagoda("generate", "x", "--temprature", "1")];
  assert.deepEqual([command.status, flag.status, pagoda("generate").status], [2, 2, 2]);
  assert.match(command.stderr, /^pagoda: Unknown command generat\. Did you mean generate\?\n$/);
  assert.match(flag.stderr, /^pagoda: Unknown option --temprature\. Did you mean --temperature\?\n$/);
  const missing = pagoda("generate", "x", "--model", "./no-such-model");
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /^pagoda: .*no-such-model/);
  assert.equal(pagoda("--help").status, 0);
  for (const [words, said] of [
    [["run", "x"], /Did you mean chat\?/],
    [["constructor"], /Unknown command constructor\. Known: /],
    [["generate", ""], /The prompt is empty\. Usage: pagoda generate \[MODEL\] PROMPT/],
    [["pull"], /ORG\/NAME\[@REVISION\]\[:FILE\|:QUANTISATION\] is missing\./],
    [["chat", "a", "b"], /There is no place for b\. Usage: pagoda chat \[MODEL\]/],
    [["serve", "--api-key", "--port", "1"], /Option --api-key is missing/],
    [["ps", "--url", "http://127.0.0.1:9"], /No server answers at http:\/\/127\.0\.0\.1:9: .*--url/],
    [["bench", "foo"], /Unknown command bench foo\. /],
    [["stop"], /Usage: pagoda stop MODEL/],
  ] as const) {
    const { status, stdout, stderr } = pagoda(...words);
    assert.deepEqual([status, stdout], [2, ""], words.join(" "));
    assert.match(stderr, said);
    assert.equal(stderr.split("\n").length, 2, "one line");
  }
  assert.match(pagoda("help", "serve").stdout, /^Usage: pagoda serve \[MODEL\.\.\.\]/);
  const [short, long] = [pagoda("serve", "--help").stdout, pagoda("serve", "--help-all").stdout];
  assert.ok(short.split("\n").length < 40 && !short.includes("--nats"), "common options alone");
  assert.match(long, /\n\nIn a cluster:\n[\s\S]*--nats/);
  assert.match(long, /--no-prefix-caching/);
  assert.match(pagoda("--version").stdout, /^pagoda \d+\.\d+\.\d+\n$/);
});

test("serve --nats ends with its error where NATS does not let it in", async (t) => {
  const nats = createTcpServer((socket) => {
    const info = { server_id: "x", version: "2.10.0", proto: 1, max_payload: 1_048_576, auth_required: true };
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.once("data", () => socket.end("-ERR 'Authorization Violation'\r\n"));
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  t.after(() => nats.close());
  await once(nats, "listening");
  const { port } = nats.address() as AddressInfo;
  const model = join("test", "goldens", "llama");
  const flags = ["--port", "0", "--device", "reference", "--model", model, "--nats", `nats://127.0.0.1:${port}`];
  const child = spawn(process.execPath, [BIN, "serve", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (data: Buffer) => {
    said += String(data);
  });
  assert.deepEqual(await once(child, "close"), [2, null], said);
  assert.match(said, /Cannot join the cluster over NATS/);
});
