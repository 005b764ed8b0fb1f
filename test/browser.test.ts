// `pagoda/browser` in a real browser: docs/guide/chat-in-a-tab.html with nothing behind it but files.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { minifySync } from "vite";
import { openBrowser, openBrowserWithWebGpu, openPage, whyNoBrowser } from "./support/browser.js";
import { bundledGguf } from "./support/bundled-gguf.js";

const BUNDLE = "dist/browser";
const skip = existsSync(BUNDLE) ? whyNoBrowser() : "the bundle is not built: node scripts/build-browser.mjs";
const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };

describe("the engine in a browser", { skip }, () => {
  let server: Server;
  let browser: Browser;
  let url: string;
  let asked: string[] = [];

  before(async () => {
    server = createServer(async (request, response) => {
      const path = new URL(request.url!, "http://here").pathname.slice(1);
      asked.push(path);
      // With these two a page may share memory between threads.
      response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
      response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
      response.setHeader("Content-Type", TYPES[extname(path)] ?? "application/octet-stream");
      const bytes = path.includes("..") ? null : await readFile(path).catch(() => null);
      response.writeHead(bytes === null ? 404 : 200, bytes === null ? {} : { "Content-Length": bytes.length });
      response.end(bytes);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    browser = await openBrowser();
  });
  after(async () => {
    await browser?.close();
    server?.close();
  });

  test("chats with the bundled model on several threads, and keeps its files for the next visit", async () => {
    const { page } = await openPage(browser, `${url}docs/guide/chat-in-a-tab.html`);
    const ready = page.locator("#state", { hasText: /pagoda-stories-16m, wasm: .* threads/ });
    await ready.waitFor();
    await page.getByLabel("Message").fill("Tell me a story about a dragon.");
    await page.keyboard.press("Enter");
    const answer = page.locator(".assistant[data-done]");
    await answer.waitFor();
    assert.match(await answer.innerText(), /[a-z]+ [a-z]+ [a-z]+/);

    asked = [];
    await page.reload();
    await ready.waitFor();
    assert.deepEqual(
      asked.filter((path) => path.endsWith(".safetensors")),
      [],
    );
  });
});

describe("files of a model in a browser", { skip }, () => {
  const whole = bundledGguf();
  let server: Server;
  let browser: Browser;
  let url: string;
  /** Ranges that were asked for, and how many bytes the server gives before it ends the connection. */
  const asked: (string | undefined)[] = [];
  let most = 0;

  before(async () => {
    server = createServer(async (request, response) => {
      const path = new URL(request.url!, "http://here").pathname.slice(1);
      const send = (bytes: Uint8Array | string, status = 200, headers = {}) => {
        response.writeHead(status, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream", ...headers });
        response.end(bytes);
      };
      if (path === "api/models/org/tiny/revision/main")
        return send(JSON.stringify({ siblings: [{ rfilename: "README.md" }, { rfilename: "tiny-Q4_K_M.gguf" }] }));
      if (path !== "org/tiny/resolve/main/tiny-Q4_K_M.gguf") {
        const bytes = path.includes("..") ? null : await readFile(path).catch(() => null);
        return send(bytes ?? "", bytes === null ? 404 : 200);
      }
      const { range } = request.headers;
      asked.push(range);
      const from = Number(/\d+/.exec(range ?? "0")![0]);
      const headers = { "Content-Length": whole.length - from, ETag: '"1"' };
      response.writeHead(range === undefined ? 200 : 206, headers);
      if (most === 0) return response.end(whole.subarray(from));
      response.write(whole.subarray(from, from + most), () => setTimeout(() => response.destroy(), 100));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    browser = await openBrowser();
  });
  after(async () => {
    await browser?.close();
    server?.close();
  });

  test("a GGUF file of a hub is gone on with where it was cut short, and kept", async () => {
    const { page } = await openPage(browser, `${url}docs/guide/chat-in-a-tab.html?model=./nothing`);
    const create = () =>
      page.evaluate(async (hub) => {
        const { createEngine } = await import(`${hub}dist/browser/index.js`);
        try {
          const engine = await createEngine({ model: "org/tiny", hub, device: "wasm" });
          const { text } = await engine.chat("Tell me a story.", { maxTokens: 4, temperature: 0 });
          await engine.close();
          return `told: ${text}`;
        } catch (error) {
          return error instanceof TypeError ? "cut short" : (error as Error).message;
        }
      }, url);
    most = 100_000;
    assert.match(await create(), /network error|cut short/);
    most = 0;
    const text = await create();
    assert.match(text, /^told: .*[a-z]/);
    assert.equal(await create(), text);
    assert.deepEqual(asked, [undefined, "bytes=100000-"]);
  });
});

describe("the engine in a browser, on WebGPU", { skip }, () => {
  let server: Server;
  let browser: Browser;

  before(async () => {
    // Without the headers by which a page may share memory.
    server = createServer(async (request, response) => {
      const path = new URL(request.url!, "http://here").pathname.slice(1);
      response.setHeader("Content-Type", TYPES[extname(path)] ?? "application/octet-stream");
      const bytes = path.includes("..") ? null : await readFile(path).catch(() => null);
      response.writeHead(bytes === null ? 404 : 200);
      response.end(bytes);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    browser = await openBrowserWithWebGpu();
  });
  after(async () => {
    await browser?.close();
    server?.close();
  });

  test("answers with the bundled model on an adapter in software, asked for by name", async () => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const { page } = await openPage(browser, `${url}docs/guide/chat-in-a-tab.html?device=webgpu`);
    await page.locator("#state", { hasText: /pagoda-stories-16m, webgpu: / }).waitFor();
    await page.getByLabel("Message").fill("Tell me a story about a dragon.");
    await page.keyboard.press("Enter");
    await page.locator(".assistant", { hasText: /[a-z]+ [a-z]+ [a-z]+/ }).waitFor();
  });
});

test("the modules of WebGPU take less than 150 KB, minified as in the bundle", () => {
  const folder = "dist/src/device/webgpu";
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".js"));
  const sizes = names.map((name) => minifySync(name, readFileSync(join(folder, name), "utf8")).code.length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total > 50_000 && total < 150_000, `${total} bytes`);
});

test("what pagoda/browser reaches imports nothing of Node", { skip: existsSync(BUNDLE) ? false : "not built" }, () => {
  for (const name of readdirSync(BUNDLE, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".js"),
  )) {
    const text = readFileSync(join(BUNDLE, name), "utf8");
    assert.doesNotMatch(text, /\b(from|import)\s*\(?["'](node:|koffi|fs["'])/, name);
  }
});
