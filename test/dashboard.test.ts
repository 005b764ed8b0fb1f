// The dashboard in a real browser, against a real server and engine.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { createEngine } from "../src/engine/client/engine.js";
import { chatTests } from "./dashboard/chat-tests.js";
import { clusterTests } from "./dashboard/cluster-tests.js";
import { ask, Lab, STORY, until, withFields } from "./dashboard/lab.js";
import { layoutTests } from "./dashboard/layout-tests.js";
import { whyNoBrowser } from "./support/browser.js";
import { freePort } from "./support/free-port.js";
import { holdAnswers } from "./support/held-answers.js";
import { writeTinyAdapter } from "./support/tiny-adapter.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

describe("dashboard", { skip: whyNoBrowser() }, () => {
  const lab = new Lab();
  before(() => lab.start());
  after(() => lab.close());

  const picture = (page: Page, selector: string): Promise<string> =>
    page.evaluate(`document.querySelector("${selector} canvas").toDataURL()`);
  const inUse = async (page: Page): Promise<number> => {
    const legend = await page.locator("#pages .legend").innerText();
    return Number(/([\d,]+) in use/.exec(legend)?.[1] ?? Number.NaN);
  };

  test("loads whole under a strict policy, without complaints", async () => {
    const response = await fetch(lab.url);
    const policy = response.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    assert.match(policy, /require-trusted-types-for 'script'; trusted-types dompurify$/);
    const { page, complaints } = await lab.open();
    await page.getByRole("status").filter({ hasText: "ready" }).waitFor();
    for (const name of ["Playground", "Live", "Steps", "Pages", "Prefixes"])
      assert.equal(await page.getByRole("region", { name, exact: true }).isVisible(), true, name);
    await page.getByText("pagoda-stories-16m").waitFor();
    assert.equal(await page.locator(".chart canvas").count(), 6);
    assert.deepEqual(complaints, []);
  });

  test("a chat streams, and shows what it cost and what the cache gave", async () => {
    const { page, complaints } = await lab.open({}, lab.quick.url);
    const letGo = holdAnswers(lab.quickEngine, " ");
    await ask(page, STORY, 34);
    const answer = page.locator(".turn.assistant").first();
    const text = answer.locator(".markdown");
    await until("the first words", async () => (await text.innerText()).length > 0);
    const early = await text.innerText();
    letGo();
    await page.locator('.turn.assistant[aria-busy="false"]').waitFor();
    const whole = await text.innerText();
    assert.ok(whole.startsWith(early) && whole.length > early.length, `streamed: ${early} | ${whole}`);
    assert.match(await answer.innerText(), /34 tokens[\s\S]*tokens\/s[\s\S]*first after[\s\S]*prompt 15, \d+ cached/);
    // The answer is announced once, when it is whole.
    assert.equal(await page.locator('#playground [aria-live="polite"]').innerText(), whole);

    await ask(page, "And then?", 4);
    const second = page.locator('.turn.assistant[aria-busy="false"]').nth(1);
    const cached = Number(/prompt \d+, (\d+) cached/.exec(await second.innerText())?.[1]);
    assert.ok(cached >= 32, `the conversation so far is cached: ${cached}`);
    assert.deepEqual(complaints, []);
  });

  test("stop ends the answer, and its pages come free", async () => {
    const { page, complaints } = await lab.open();
    await withFields(page, { ignore_eos: true }); // no end of its own before that
    await ask(page, STORY, 400);
    const text = page.locator(".turn.assistant .markdown");
    await until("the first words", async () => (await text.innerText()).length > 0);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByText("stopped", { exact: true }).waitFor();
    const stopped = await text.innerText();
    await until("free of requests", async () => (await lab.engine.stats()).running === 0);
    const { pagesUsed, generatedTokens } = await lab.engine.stats();
    assert.equal(pagesUsed, 0);
    assert.ok(generatedTokens < 400, "it went on to its end");
    assert.equal(await text.innerText(), stopped);
    await page.getByRole("button", { name: "Send" }).waitFor();
    assert.deepEqual(complaints, []);
  });

  test("the page map, the trie, the timeline and the plan follow the requests that run", async () => {
    // High enough for all of it: what is out of sight is looked at seldom.
    const { page, complaints } = await lab.open({ viewport: { width: 1440, height: 2200 } });
    await until("the page map", async () => (await inUse(page)) === 0);
    const idleMap = await picture(page, ".page-map");
    const idleSteps = await picture(page, ".timeline");
    const opening = "Once upon a time there was a girl named Lily who had a red boat and a dog. ";
    const isSeen = new AbortController();
    const { signal } = isSeen;
    /** Again and again: a busy browser may need longer than an answer. */
    const keepAsking = async (word: string): Promise<void> => {
      while (!signal.aborted) {
        const answer = lab.engine.generate(opening + word, { maxTokens: 400, ignoreEos: true, signal });
        await answer.result().catch((error) => assert.equal(error.code, "aborted"));
      }
    };
    const runs = Promise.all(["One", "Two", "Three"].map(keepAsking));
    runs.catch(() => undefined); // told below
    await until("pages in use", async () => (await inUse(page)) > 0);
    assert.notEqual(await picture(page, ".page-map"), idleMap, "the page map changed");
    await until("another timeline", async () => (await picture(page, ".timeline")) !== idleSteps);
    await until("a step of three rows", async () => (await page.locator(".step-detail tbody tr").count()) === 3);
    await until("its plan", async () => /[3-9] work items/.test(await page.locator(".step-detail").innerText()));

    const isLong = async () => Number(await page.locator(".timeline").getAttribute("aria-valuemax")) > 24;
    await until("a timeline of two dozen steps", isLong);
    // Paused, the timeline stands still while steps go on.
    await page.getByRole("button", { name: "Pause" }).click();
    const behind = page.getByText(/newer steps/);
    const stillPicture = async (): Promise<string> => {
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"); // all is painted
      return picture(page, ".timeline");
    };
    const few = await behind.innerText();
    const frozen = await stillPicture();
    await until("more steps", async () => (await behind.innerText()) !== few);
    assert.ok((await stillPicture()) === frozen, "the paused timeline changed");
    const box = (await page.locator(".timeline").boundingBox())!;
    await page.mouse.click(box.x + 160, box.y + 200); // a whole column: one that is cut would scroll into view
    const chosen = (await page.locator(".timeline").getAttribute("aria-valuetext"))!;
    const shown = () => page.locator(".step-detail h3 b").first().innerText();
    await until(`the chosen step: ${chosen}`, async () => chosen.startsWith(`${await shown()},`));
    await page.getByRole("button", { name: "Follow" }).click();

    isSeen.abort();
    await runs;
    await until("no page in use", async () => (await inUse(page)) === 0);
    const line = page.getByRole("treeitem").filter({ hasText: "there was a girl named Lily" }).first();
    await line.hover();
    assert.match(await page.locator(".tooltip").innerText(), /tokens 0 to \d+, pages? [\s\S]*Once upon a time/);
    assert.deepEqual(complaints, []);
  });

  test("steps are reached by keyboard, and said in words", async () => {
    const { page } = await lab.open();
    const timeline = page.getByRole("slider", { name: /^Steps/ });
    await until("the history", async () => Number(await timeline.getAttribute("aria-valuemax")) > 20);
    await timeline.focus();
    await page.keyboard.press("End");
    const last = await timeline.getAttribute("aria-valuetext");
    assert.match(last!, /^Step [\d,]+, \d+ prompts?, \d+ decodes?; [\d,]+ of 512 tokens/);
    await page.keyboard.press("ArrowLeft");
    assert.notEqual(await timeline.getAttribute("aria-valuetext"), last);
    await page.keyboard.press("Home");
    assert.equal(await timeline.getAttribute("aria-valuenow"), "0");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Pause" }).waitFor();

    const pages = page.getByRole("slider", { name: /^Pages/ });
    await pages.scrollIntoViewIfNeeded();
    await until("the page map", async () => Number(await pages.getAttribute("aria-valuemax")) > 0);
    await pages.focus();
    await page.keyboard.press("Home");
    assert.match((await pages.getAttribute("aria-valuetext"))!, /^Page 0, the null page/);
    const nameless = await page.evaluate(
      `[...document.querySelectorAll("button, input, textarea, canvas, [role=img], [role=slider], [role=treeitem]")]
        .filter((e) => !e.closest("[hidden]") && e.ariaHidden !== "true" && !e.textContent && !e.ariaLabel && !(e.labels?.length > 0))
        .filter((e) => !(e.tagName === "CANVAS" && e.closest("[role=img]"))).map((e) => e.outerHTML)`,
    );
    assert.deepEqual(nameless, []);
  });

  test("both themes, by the system's wish or one's own, readable and remembered", async () => {
    const contrastAndPaper = `(() => {
      const luminance = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const { color, backgroundColor } = getComputedStyle(document.body);
      const soft = getComputedStyle(document.querySelector(".note")).color;
      const paper = luminance(backgroundColor);
      const ratio = (ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
      return { paper, ink: ratio(luminance(color)), soft: ratio(luminance(soft)) };
    })()`;
    type Measure = { paper: number; ink: number; soft: number };
    const { page, complaints } = await lab.open({ colorScheme: "dark" });
    const dark = (await page.evaluate(contrastAndPaper)) as Measure;
    await page.locator(".page-map").scrollIntoViewIfNeeded();
    await until("a page map", async () => Number(await page.locator(".page-map").getAttribute("aria-valuemax")) > 0);
    const darkMap = await picture(page, ".page-map");
    await page.getByRole("button", { name: /^Theme: System/ }).click();
    const light = (await page.evaluate(contrastAndPaper)) as Measure;
    await until("a light page map", async () => (await picture(page, ".page-map")) !== darkMap);
    assert.ok(dark.paper < 0.05 && light.paper > 0.8, JSON.stringify({ dark, light }));
    for (const { ink, soft } of [dark, light]) assert.ok(ink >= 7 && soft >= 4.5, JSON.stringify({ dark, light }));
    await page.reload();
    assert.deepEqual(await page.evaluate(contrastAndPaper), light);
    assert.deepEqual(complaints, []);
  });

  test("asks for the API key, keeps it in the tab, and goes on", async () => {
    const guarded = await lab.serve({ apiKey: ["sesame"] });
    const { page } = await lab.open({}, guarded.url);
    const dialog = page.getByRole("dialog", { name: "API key" });
    for (const key of ["wrong", "sesame"]) {
      await dialog.getByLabel("Key").fill(key);
      await dialog.getByRole("button", { name: "Use this key" }).click();
      if (key === "wrong") await dialog.getByText("not one of this server's").waitFor();
    }
    await page.getByRole("status").filter({ hasText: "ready" }).waitFor();
    assert.deepEqual(await page.evaluate("[sessionStorage.length, localStorage.length]"), [1, 0]);
    await ask(page, STORY, 3);
    await page.locator('.turn.assistant[aria-busy="false"]').filter({ hasText: "3 tokens" }).waitFor();
    await guarded.server.close(0);
  });

  test("finds the server again after it was away, and says so meanwhile", async () => {
    const port = await freePort(); // nobody takes it meanwhile
    const first = await lab.serve({ port });
    const { page } = await lab.open({}, first.url);
    const status = page.getByRole("status").first();
    await status.filter({ hasText: "ready" }).waitFor();
    await first.server.close(0);
    await status.filter({ hasText: "offline" }).waitFor();
    const again = await lab.serve({ port });
    await status.filter({ hasText: "ready" }).waitFor();
    await again.server.close(0);
  });

  test("adapters are shown once there are any: their state, who has them, what they take", async () => {
    const model = writeTinyCheckpoint();
    await using engine = await createEngine({ model, device: "reference", worker: false, numPages: 64 });
    const { server, url } = await lab.serve({}, engine);
    const { page, complaints } = await lab.open({}, url);
    await page.getByRole("status").filter({ hasText: "ready" }).waitFor();
    const region = page.getByRole("region", { name: "Adapters", exact: true });
    assert.equal(await region.count(), 0);
    const { byteLength } = await engine.loadAdapter("sql", writeTinyAdapter({ seed: 1 }), { pin: true });
    const row = region.locator("tbody tr");
    await row.waitFor();
    const mebibytes = (byteLength / 2 ** 20).toFixed(1);
    assert.equal(await row.innerText(), `sql\tpinned\t0\t${mebibytes} MiB`);
    await page.getByRole("link", { name: "Adapters", exact: true }).waitFor();
    await region.getByText("1 adapter,").waitFor();
    await engine.unloadAdapter("sql");
    await region.getByText("None is in memory.").waitFor();
    assert.deepEqual(complaints, []);
    await server.close(0);
  });

  chatTests(lab);
  layoutTests(lab);
  clusterTests(lab);
});
