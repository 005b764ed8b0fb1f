// The documentation site as built by `npm run docs`: every page without a finding of axe, in the dark theme its contrasts, and a search that finds.
// VitePress itself refuses dead links.
//   npm run docs && node tools/check-site.mjs        (chromium: PAGODA_CHROMIUM, else /usr/bin/chromium)
import { createReadStream, existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";

const site = join(import.meta.dirname, "../site/.vitepress/dist");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

const server = createServer((request, response) => {
  const path = normalize(new URL(request.url, "http://site").pathname);
  const file = [path, `${path}.html`, `${path}/index.html`]
    .map((name) => join(site, name))
    .find((name) => {
      return name.startsWith(site) && extname(name) !== "" && existsSync(name);
    });
  if (file === undefined) return void response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}`;

const pages = readdirSync(site, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".html") && !/404|chat-in-a-tab/.test(name))
  .sort();
const problems = [];
const browser = await chromium.launch({
  executablePath: process.env.PAGODA_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
for (const colorScheme of ["light", "dark"]) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
  page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.message}`));
  for (const name of pages) {
    await page.goto(`${url}/${name.replace(/(index)?\.html$/, "")}`, { waitUntil: "load" });
    await page.evaluate(axe);
    const rules = colorScheme === "light" ? {} : { runOnly: ["color-contrast"] };
    const { violations } = await page.evaluate((options) => globalThis.axe.run(options), rules);
    for (const { id, help, nodes } of violations)
      problems.push(`${colorScheme} ${name}: ${id} (${nodes.length}): ${help}: ${nodes[0].html.slice(0, 160)}`);
  }
  await page.close();
}
const page = await browser.newPage();
await page.goto(`${url}/`);
await page.getByRole("button", { name: "Search" }).first().click();
await page.getByRole("searchbox").fill("prefix cache");
const found = page.locator("#localsearch-list a").first();
await found.waitFor({ timeout: 30_000 }).catch(() => problems.push("the search finds nothing for: prefix cache"));
await browser.close();
server.close();
console.log(`${pages.length} pages in two themes, ${problems.length} problems`);
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);
