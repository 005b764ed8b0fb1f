// `pagoda chat` at a terminal of its own (util-linux' script).

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startHub } from "./support/hub-server.js";
import { until } from "./support/until.js";

const hasScript = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

describe("chat at a terminal", { skip: hasScript ? false : "there is no util-linux script" }, () => {
  const cache = mkdtempSync(join(tmpdir(), "pagoda-terminal-"));
  const terminals: Terminal[] = [];

  class Terminal {
    seen = "";
    readonly #child;
    readonly ended: Promise<number | null>;

    constructor(command: string, env: Record<string, string> = {}) {
      this.#child = spawn("script", ["-qec", `node bin/pagoda.js ${command}`, "/dev/null"], {
        env: { PATH: process.env.PATH, TERM: "xterm", NO_COLOR: "1", HF_HUB_CACHE: cache, ...env },
        stdio: ["pipe", "pipe", "inherit"],
      });
      this.#child.stdout.on("data", (data) => {
        this.seen += data;
      });
      this.ended = new Promise((resolve) => this.#child.once("close", resolve));
      terminals.push(this);
    }

    async sees(what: string | RegExp): Promise<void> {
      const isSeen = () => (typeof what === "string" ? this.seen.includes(what) : what.test(this.seen));
      await until(async () => isSeen(), `${what} in ${this.seen}`);
    }

    type(text: string): void {
      this.#child.stdin.write(text);
    }

    end(): void {
      this.#child.kill();
    }
  }

  after(() => {
    for (const terminal of terminals) terminal.end();
    rmSync(cache, { recursive: true });
  });

  test("a paste is one message, what is typed ahead waits, and Ctrl-C keeps what was said", async () => {
    const kept = join(cache, "talk.json");
    const chat = new Terminal("chat models/pagoda-stories-16m --seed 1 --ignore-eos --device cpu");
    await chat.sees("> ");
    chat.type("\x1b[200~Tell me a story\r/of two cats.\x1b[201~");
    await chat.sees("/of two cats.");
    await sleep(50);
    assert.ok(!chat.seen.includes("prompt tokens"), "nothing is sent before Enter");
    chat.type("\r");
    const answer = () => chat.seen.slice(chat.seen.indexOf("/of two cats.")).split("\n").slice(1).join("\n");
    await until(async () => answer().length > 40, "the first words");
    chat.type(`/save ${kept}\r`);
    await sleep(100);
    assert.ok(!chat.seen.includes("/save"), "it is not echoed into the answer");
    chat.type("\x03");
    await chat.sees("[stopped]");
    await chat.sees(`1 turn kept in ${kept}`);
    const [question, said] = JSON.parse(readFileSync(kept, "utf8"));
    assert.equal(question.content, "Tell me a story\n/of two cats.");
    assert.ok(said.content.length > 10 && answer().includes(said.content.slice(0, 20).split("\n")[0]), said.content);
    chat.type("half a wo\x03");
    await sleep(100);
    chat.type("\x03");
    await chat.sees("Ctrl-C again or /exit leaves");
    chat.type("\x03");
    assert.equal(await chat.ended, 0);
    assert.match(chat.seen, /\n$/);
  });

  test("offers models where none is named, and pulls the chosen one; without a hub it is the bundled one", async (t) => {
    const hub = await startHub({ "Qwen3-0.6B-Q4_K_M.gguf": "no weights" }, "unsloth/Qwen3-0.6B-GGUF");
    t.after(async () => {
      await hub.close();
    });
    const alone = new Terminal("chat", { HF_ENDPOINT: "http://127.0.0.1:9" });
    await alone.sees("the bundled demo model");
    await alone.sees("> ");
    alone.type("/exit\r");
    assert.equal(await alone.ended, 0);

    const offered = new Terminal("chat", { HF_ENDPOINT: hub.url });
    await offered.sees(/1 {2}unsloth\/Qwen3-0\.6B-GGUF:Q4_K_M +10 B/);
    offered.type("7\r");
    await offered.sees(/Which one\? [\s\S]*Which one\? /);
    offered.type("\r");
    await offered.sees("Next time: pagoda chat unsloth/Qwen3-0.6B-GGUF:Q4_K_M");
    await offered.sees("this is not a GGUF file");
    assert.equal(await offered.ended, 1);
  });
});
