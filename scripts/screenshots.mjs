// Takes the pictures of docs/guide/dashboard.md, docs/guide/cluster.md and the README: the built dashboard (npm run build) in the system's chromium, with a real
// engine under traffic that the page itself makes.
//   node scripts/screenshots.mjs
import { clusterRoute } from "../dist/src/cli/cluster/cluster-view.js";
import { BUNDLED_MODEL } from "../dist/src/config/engine-config.js";
import { createEngine } from "../dist/src/engine/client/engine.js";
import { createServer } from "../dist/src/server/server.js";
import { openBrowser, openPage } from "../dist/test/support/browser.js";
import { TestNats } from "../dist/test/support/nats.js";
import { SmallCluster } from "../dist/test/support/small-cluster.js";

const FOLDER = "docs/images";
const SIZE = { viewport: { width: 1440, height: 900 }, deviceScaleFactor: 1.5 };

const engine = await createEngine({ seed: 3, numPages: 1025, threads: 2 });
const server = createServer(engine, { port: 0, logLevel: "warn" });
const { url } = await server.listen();
const browser = await openBrowser();

/** Waits until the engine has done so many more steps: how long that takes is the machine's business. */
async function steps(count) {
  const { steps: before } = await engine.stats();
  while ((await engine.stats()).steps < before + count) await new Promise((resolve) => setTimeout(resolve, 100));
}

/** A page that has been talked to while traffic ran for a while. */
async function busyPage(colorScheme) {
  const { page, complaints } = await openPage(browser, `${url}/`, { ...SIZE, colorScheme });
  page.setDefaultTimeout(120_000); // a busy engine leaves the browser little
  await page.getByText("Traffic", { exact: true }).click();
  await page.getByRole("button", { name: "Start" }).click();
  await steps(500);
  await page.getByRole("button", { name: "Tell me a story about a dragon." }).click();
  await page.locator('.turn.assistant[aria-busy="false"]').waitFor();
  await steps(120);
  if (complaints.length > 0) throw new Error(`the page complains: ${complaints.join("; ")}`);
  return page;
}

async function save(target, name) {
  const path = `${FOLDER}/${name}.png`;
  await target.screenshot({ path, animations: "disabled" });
  console.log(path);
}

const light = await busyPage("light");
await save(light, "dashboard-light");

// Without traffic no step is forgotten while one is chosen.
await light.getByRole("button", { name: "Stop traffic" }).click();
await light.getByRole("button", { name: "Start" }).waitFor();

// Of the steps that mix prompts and decodes, the largest of the last few hundred.
const history = engine.inspect.history();
const [mixed] = history
  .slice(-300, -60)
  .filter(({ rows }) => rows.some((row) => row.isPrefill) && rows.some((row) => !row.isPrefill))
  .sort((a, b) => b.tokens - a.tokens);
await light.getByRole("button", { name: "Pause" }).click();
const timeline = light.locator(".timeline");
await timeline.focus();
await light.keyboard.press("End");
const shownLast = Number((await timeline.getAttribute("aria-valuetext")).match(/[\d,]+/)[0].replaceAll(",", ""));
for (let left = shownLast - mixed.step; left > 0; left--) await light.keyboard.press("ArrowLeft");
await timeline.blur();
await light.waitForTimeout(1500);
await save(light.locator("#steps"), "dashboard-steps");

await light.getByRole("button", { name: "Start" }).click();
await light.locator(".page-map").scrollIntoViewIfNeeded(); // what is out of sight is looked at seldom
await light.getByText(/[1-9]\d* in use/).waitFor();
await light.locator(".page-map").hover({ position: { x: 34, y: 18 } });
await light.waitForTimeout(300);
await save(light, "dashboard-pages");
await light.context().close();

const dark = await busyPage("dark");
await save(dark, "dashboard-dark");
await dark.context().close();

// The chat alone: three conversations, the last with a second version of its answer.
const { page: chat } = await openPage(browser, `${url}/`, { ...SIZE, colorScheme: "light" });
chat.setDefaultTimeout(120_000);
await chat.getByRole("button", { name: "Chat", exact: true }).click();
await chat.getByRole("button", { name: "Conversations" }).click();
const answered = () => chat.locator('.turn.assistant:last-child[aria-busy="false"]').waitFor();
const suggestions = await chat.locator(".welcome button").allInnerTexts();
for (const text of suggestions) {
  await chat.getByRole("button", { name: "New chat" }).click();
  await chat.locator(".welcome").getByRole("button", { name: text }).click();
  await answered();
}
await chat.getByRole("button", { name: "Regenerate" }).click();
await chat.locator(".siblings").waitFor();
await answered();
await chat.locator(".transcript").evaluate((transcript) => transcript.scrollTo(0, 0));
await save(chat, "dashboard-chat");

await server.close(0);
await engine.close();

// A router in front of three replicas, one of which leaves in the middle of an answer.
const nats = await TestNats.start();
const replica = { engine: { model: BUNDLED_MODEL, numPages: 513 } };
const model = BUNDLED_MODEL;
const cluster = await SmallCluster.start(nats.url, { model, replicas: [replica, replica, replica] });
const { engine: routed, router, config } = cluster;
const view = clusterRoute(router.router, config.cluster, (_, tokens) => routed.tokenizer.decode(tokens));
const front = createServer(routed, { port: 0, logLevel: "warn", routes: [view] });
const openings = [
  "Once upon a time there was a girl named Lily who had a red boat and a dog named Max. ",
  "The king was old. ",
];
const ask = (text, maxTokens) => routed.generate(text, { maxTokens, ignoreEos: true });
for (let i = 0; i < 12; i++) await ask(`${openings[i % 3 === 2 ? 1 : 0].repeat(4)} Day ${i}.`, 8).result();
const long = ask(`${openings[0].repeat(4)} Day 99.`, 160);
await long[Symbol.asyncIterator]().next();
const [{ events }] = router.router.journeys.list();
const serving = events.find(({ type }) => type === "chosen").replica;
await cluster.replicas.find(({ member }) => member.id === serving).member.close();
await long.result();
const { page: clusterPage } = await openPage(browser, `${(await front.listen()).url}/`, {
  viewport: { width: 1440, height: 1180 },
  deviceScaleFactor: 1.5,
  colorScheme: "light",
});
clusterPage.setDefaultTimeout(120_000);
await clusterPage.getByRole("button", { name: "Cluster", exact: true }).click();
await clusterPage.locator(".way li").first().waitFor();
await clusterPage.locator("#replicas").scrollIntoViewIfNeeded();
await clusterPage.evaluate(
  'scrollTo({ top: document.querySelector("#replicas").offsetTop - 70, behavior: "instant" })',
);
await save(clusterPage, "dashboard-cluster");

await browser.close();
await front.close(0);
await cluster[Symbol.asyncDispose]();
await nats[Symbol.asyncDispose]();
