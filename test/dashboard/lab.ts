// What the tests of the dashboard share: an engine, a server, a browser, and ways to use the page.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { createEngine } from "../../src/engine/client/engine.js";
import type { Engine } from "../../src/engine/types.js";
import { createServer, type PagodaServer, type ServerOptions } from "../../src/server/server.js";
import type { Conversation, Message } from "../../web/src/data/conversation.js";
import { toJson } from "../../web/src/data/conversation-file.js";
import { openBrowser, SIZE, type WatchedPage, watchPage } from "../support/browser.js";
import { startPaced } from "../support/paced-engine.js";

export const STORY = "Tell me a story about a dragon.";

interface Served {
  readonly server: PagodaServer;
  readonly url: string;
}

interface Visit {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly colorScheme?: "light" | "dark";
  readonly permissions?: string[];
}

export class Lab {
  /** Slow enough to watch. */
  engine!: Engine;
  /** For answers that nobody watches. */
  quickEngine!: Engine;
  page!: Page;
  server!: PagodaServer;
  url!: string;
  quick!: Served;

  async start(): Promise<void> {
    this.engine = await startPaced({ numPages: 512, seed: 11, threads: 1 });
    this.quickEngine = await createEngine({ numPages: 512, seed: 11, threads: 1 });
    this.page = await (await openBrowser()).newPage();
    ({ server: this.server, url: this.url } = await this.serve());
    this.quick = await this.serve({}, this.quickEngine);
  }

  async close(): Promise<void> {
    await this.page?.context().browser()?.close();
    await this.server?.close(0);
    await this.quick?.server.close(0);
    await this.engine?.close();
    await this.quickEngine?.close();
  }

  async serve(options: ServerOptions = {}, engine = this.engine): Promise<Served> {
    const server = createServer(engine, { port: 0, logLevel: "silent", ...options });
    return { server, url: `${(await server.listen()).url}/` };
  }

  /** The page as a new visitor sees it, always in the same tab: to open another takes longer than most tests. */
  async open(options: Visit = {}, url = this.url): Promise<WatchedPage> {
    const { viewport = SIZE, colorScheme = "light", permissions = [] } = options;
    const { page } = this;
    const { origin } = new URL(url);
    page.removeAllListeners();
    await page.goto("about:blank"); // the visitor before leaves
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
    await devtools.detach();
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    await page.context().grantPermissions(permissions, { origin });
    return watchPage(page, url);
  }
}

/** Waits for something that comes by itself. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 4800; tries++) {
    if (await isSo()) return;
    await sleep(50);
  }
  assert.fail(`waited long, and never ${what}`);
}

export async function ask(page: Page, text: string, maxTokens: number): Promise<void> {
  if ((await page.getByLabel("Max tokens").isVisible()) === false) await page.getByText("Parameters").click();
  await page.getByLabel("Max tokens").fill(String(maxTokens));
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

/** Waits for the answer that is last in the transcript to be whole. */
export async function answered(page: Page): Promise<void> {
  await page.locator('.turn.assistant[aria-busy="false"]:last-child').waitFor();
}

/** Adds fields to what the page asks of the model from now on. */
export async function withFields(page: Page, fields: Readonly<Record<string, unknown>>): Promise<void> {
  await page.evaluate(`(() => {
    globalThis.realFetch ??= fetch;
    globalThis.fetch = (path, init) => {
      if (!init.body) return realFetch(path, init);
      return realFetch(path, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), ...${JSON.stringify(fields)} }) });
    };
  })()`);
}

/** A message as tests write it: those without a parent follow the one before. */
export type Said = Partial<Message> & Pick<Message, "role" | "content">;

export function fileOf(name: string | null, said: readonly Said[]): { name: string; mimeType: string; buffer: Buffer } {
  const messages = said.map(
    (message, i): Message => ({ id: String(i + 1), parent: i === 0 ? "" : String(i), createdMs: i, ...message }),
  );
  const conversation: Conversation = {
    ...{ id: "a", createdMs: 0, updatedMs: Date.now(), name, model: null },
    ...{ settings: {}, messages, chosen: {} },
  };
  return { name: "conversation.json", mimeType: "application/json", buffer: Buffer.from(toJson([conversation])) };
}

/** Opens a conversation as a user would who has it in a file. */
export async function importFile(page: Page, file: ReturnType<typeof fileOf>): Promise<void> {
  if (!(await page.locator("#conversations").isVisible()))
    await page.getByRole("button", { name: "Conversations" }).click();
  await page.locator('input[type="file"]').setInputFiles(file);
  await page.locator(".turn").first().waitFor();
}
