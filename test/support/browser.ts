// The system's chromium, for tests of the dashboard: found, started, and watched for errors.

import { existsSync } from "node:fs";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const EXECUTABLE = process.env.PAGODA_CHROMIUM ?? "/usr/bin/chromium";
export const SIZE = { width: 1440, height: 900 };
const FLAGS = [
  "--no-sandbox", // chromium refuses to run as root with it, and tests in containers are root
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Why the dashboard cannot be tested here; false when it can. */
export function whyNoBrowser(): string | false {
  if (!existsSync(EXECUTABLE)) return `no chromium at ${EXECUTABLE}: install it, or set PAGODA_CHROMIUM to where it is`;
  if (!existsSync("web/dist/index.html")) return "the page is not built: npm run build";
  return false;
}

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
}

/** With WebGPU in software (SwiftShader). */
export function openBrowserWithWebGpu(): Promise<Browser> {
  const args = [...FLAGS.filter((flag) => flag !== "--disable-gpu"), "--enable-unsafe-webgpu"];
  return chromium.launch({ executablePath: EXECUTABLE, args });
}

export interface WatchedPage {
  readonly page: Page;
  /** Console errors, exceptions, and requests to anywhere but the server. */
  readonly complaints: string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: SIZE, ...options });
  return watchPage(await context.newPage(), url);
}

/** Goes there. */
export async function watchPage(page: Page, url: string): Promise<WatchedPage> {
  page.setDefaultTimeout(240_000); // a machine may be busy with other tests
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) complaints.push(`asks for ${request.url()}`);
  });
  await page.goto(url);
  return { page, complaints };
}
