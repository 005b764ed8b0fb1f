// The chat of the dashboard: what answers look like, conversations that are kept, branches, tools, models.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { createEngine } from "../../src/engine/client/engine.js";
import { holdAnswers } from "../support/held-answers.js";
import { seeingCheckpoint } from "../support/seeing-checkpoint.js";
import { answered, ask, fileOf, importFile, type Lab, STORY, until, withFields } from "./lab.js";

const CODE = 'const a = "<b>"; // one\nif (a) go();';
const MARKDOWN = `# Title\n\nSome **bold** words, [a link](https://example.org/a).\n\n\`\`\`js\n${CODE}\n\`\`\`\n\n| a | b |\n|---|---:|\n| 1 | 2 |\n`;
const HOSTILE = [
  "<script>globalThis.isHit = 1</script> <img src=x onerror='globalThis.isHit = 1'>",
  '<iframe srcdoc="<script>top.isHit = 1</script>"></iframe>',
  "[click](javascript:globalThis.isHit=1) [data](data:text/html,<script>1</script>) <a href='javascript:1'>a</a>",
  "![pixel](https://elsewhere.example/pixel.png) ![x](x.png)",
  '<svg><style>@import "https://elsewhere.example/a.css"</style></svg><form action="https://elsewhere.example"><input name=q>',
  '```"><img src=x onerror=globalThis.isHit=1>\n</code></pre><img src=x onerror=globalThis.isHit=1>\n```',
  "| <img src=x onerror=globalThis.isHit=1> |\n|---|\n| `<b onclick=1>` |",
].join("\n\n");

const version = (page: Page, index: number): Promise<string> => page.locator(".siblings").nth(index).innerText();
const listed = (page: Page): Promise<string[]> => page.locator(".conversations .name").allInnerTexts();

export function chatTests(lab: Lab): void {
  test("pictures are added, dropped and sent to a model that sees, and kept with the conversation", async () => {
    const golden = "test/goldens-vision/qwen3vl";
    const model = seeingCheckpoint(golden, "qwen3vl");
    const engine = await createEngine({ model, numPages: 200, threads: 1, seed: 1 });
    const { server, url } = await lab.serve({}, engine);
    try {
      const { page, complaints } = await lab.open({}, url);
      const file = `${golden}/image-2-1.png`;
      await page.getByRole("button", { name: "Add picture" }).waitFor();
      await page.locator('input[type="file"][accept*="image/png"]').setInputFiles([file, `${golden}/image-2-0.png`]);
      await page.locator('.composer .thumbnail[data-painted="true"]').nth(1).waitFor();
      await page.getByRole("button", { name: "Remove picture 2" }).click();
      const dropped = readFileSync(`${golden}/image-2-0.png`).toString("base64");
      await page.evaluate(`(() => {
        const bytes = Uint8Array.from(atob("${dropped}"), (char) => char.charCodeAt(0));
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([bytes], "a.png", { type: "image/png" }));
        document.querySelector(".composer").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
      })()`);
      await page.locator(".composer .thumbnail").nth(1).waitFor();
      await ask(page, "Which?", 4);
      await answered(page);
      const sent = page.locator('.turn.user .thumbnail[data-painted="true"]');
      await sent.nth(1).waitFor();
      assert.equal(await page.locator(".composer .thumbnail").count(), 0);
      assert.equal((await engine.stats()).pictures.encoded, 2);
      await page.reload();
      await page.getByRole("button", { name: "Conversations" }).click();
      await page.locator(".conversations .name").first().click();
      await sent.nth(1).waitFor();
      assert.deepEqual(complaints, []);
    } finally {
      await server.close(0);
      await engine.close();
    }
    const { page } = await lab.open();
    await page.getByRole("status").filter({ hasText: "ready" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Add picture" }).isVisible(), false, "this one has no eyes");
  });

  test("answers are markdown: code has colours and can be copied, and hostile text is only text", async () => {
    const { page, complaints } = await lab.open({ permissions: ["clipboard-read", "clipboard-write"] });
    await importFile(
      page,
      fileOf("Kinds", [
        { role: "user", content: "<b>hi</b>" },
        { role: "assistant", content: MARKDOWN },
      ]),
    );
    const answer = page.locator(".turn.assistant");
    assert.equal(await page.locator(".turn.user .text").innerText(), "<b>hi</b>");
    assert.equal(await answer.locator("strong").innerText(), "bold");
    assert.equal(
      await page.evaluate("getComputedStyle(document.querySelector('.turn td:last-child')).textAlign"),
      "right",
    );
    assert.equal(await answer.locator(".hljs-keyword").first().innerText(), "const");
    assert.equal(await answer.locator("pre").innerText(), CODE);
    assert.match((await answer.locator("a").getAttribute("rel"))!, /noopener noreferrer/);
    await answer.getByRole("button", { name: "Copy code" }).click();
    await answer.getByText("Copied").waitFor();
    assert.equal(await page.evaluate("navigator.clipboard.readText()"), CODE);
    await answer.getByRole("button", { name: "Copy message" }).click();
    await until("copied", async () => (await page.evaluate("navigator.clipboard.readText()")) === MARKDOWN);

    await importFile(
      page,
      fileOf("Evil", [
        { role: "user", content: HOSTILE },
        { role: "assistant", content: HOSTILE },
      ]),
    );
    await page.getByRole("heading", { name: "Evil" }).waitFor();
    const markup =
      ".transcript :is(script, img, iframe, svg, style, form, object, input, a[href^='j' i], a[href^='d' i], [onerror], [onclick])";
    assert.equal(await page.locator(markup).count(), 0);
    const text = await answer.innerText();
    for (const part of [
      "<script>globalThis",
      "<iframe srcdoc",
      "click",
      "image: pixel",
      "</code></pre><img",
      "<svg><style>",
    ])
      assert.ok(text.includes(part), `${part} is not shown: ${text}`);
    const links = await page.evaluate("[...document.querySelectorAll('.transcript a')].map((link) => link.href)");
    // Links are for who clicks them.
    assert.deepEqual(
      links,
      ["pixel.png", "a.css"].map((name) => `https://elsewhere.example/${name}`),
    );
    assert.equal(await page.evaluate("globalThis.isHit"), undefined);
    assert.deepEqual(complaints, [], "nothing was asked for elsewhere, and the policy had nothing to stop");
  });

  test("while an answer streams, the blocks that are done are left alone", async () => {
    const { page, complaints } = await lab.open({}, lab.quick.url);
    const literal = "# Hi\n\n```js\ngo();\n```\n\nyes"
      .replace(/[[\](){}*+?.\\|^$"/-]/g, "\\$&")
      .replaceAll("\n", "\\n");
    await withFields(page, { guided_regex: literal });
    const letGo = holdAnswers(lab.quickEngine, "go");
    await ask(page, STORY, 40);
    await page.locator(".markdown .code").waitFor();
    // The title is marked: who makes it again loses the mark.
    await page.evaluate("document.querySelector('.markdown .heading').dataset.mark = 'kept'");
    letGo();
    await answered(page);
    assert.equal(await page.locator(".markdown .heading").getAttribute("data-mark"), "kept");
    assert.equal(await page.locator(".markdown pre").innerText(), "go();");
    assert.equal(await page.locator(".markdown > p").last().innerText(), "yes");
    assert.deepEqual(complaints, []);
  });

  test("regenerating and editing make versions, kept over a reload; conversations are renamed, found, exported and deleted", async () => {
    const { page, complaints } = await lab.open({}, lab.quick.url);
    const heading = page.locator("#playground-title");
    await ask(page, STORY, 4);
    await answered(page);
    const first = await page.locator(".turn.assistant .markdown").innerText();
    await page.getByRole("button", { name: "Regenerate" }).click();
    await until("a second version", async () => (await page.locator(".siblings").count()) === 1);
    await answered(page);
    assert.equal(await version(page, 0), "‹\n2/2\n›");
    await page.getByRole("button", { name: "Previous version" }).click();
    assert.equal(await page.locator(".turn.assistant .markdown").innerText(), first);

    // The arrow in an empty composer edits what was said last.
    await page.getByLabel("Message", { exact: true }).press("ArrowUp");
    await page.getByLabel("Edited message").press("Escape");
    await page.getByLabel("Message", { exact: true }).press("ArrowUp");
    await page.getByLabel("Edited message").fill("Tell me of owls.");
    await page.keyboard.press("Enter");
    await answered(page);
    await until("two versions of the question", async () => (await page.locator(".turn.user .siblings").count()) === 1);
    assert.equal(await heading.innerText(), STORY);

    await page.reload();
    await page.keyboard.press("Control+k");
    await page.getByLabel("Search conversations").fill("owls dragon");
    await until("the conversation is found", async () => (await listed(page)).length === 1);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator(".turn.user").filter({ hasText: "Tell me of owls." }).waitFor();
    assert.equal(await page.getByLabel("Max tokens").inputValue(), "4", "with its settings");
    await page.locator(".turn.user").getByRole("button", { name: "Previous version" }).click();
    assert.equal(await page.locator(".turn.assistant .markdown").innerText(), first);

    await page.keyboard.press("Control+k");
    await page.getByLabel("Search conversations").fill("");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("F2");
    await page.getByLabel("Name", { exact: true }).waitFor();
    await page.getByLabel("Search conversations").dispatchEvent("input"); // the list is shown again: the name under the hand stays
    await page.getByLabel("Name", { exact: true }).fill("Birds / beasts");
    await page.keyboard.press("Enter");
    await until("renamed", async () => (await listed(page))[0] === "Birds / beasts");
    assert.equal(await heading.innerText(), "Birds / beasts");

    const exported = async (kind: string): Promise<{ name: string; text: string }> => {
      await page.getByLabel("More for Birds / beasts").click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: `Export as ${kind}` }).click(),
      ]);
      return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
    };
    const markdown = await exported("Markdown");
    assert.equal(markdown.name, "Birds-beasts.md");
    assert.ok(
      markdown.text.includes(`## You\n\n${STORY}\n\n## Answer (pagoda-stories-16m)\n\n${first}`),
      markdown.text,
    );
    const json = await exported("JSON");
    await page.locator(".open-it").first().focus();
    await page.keyboard.press("Delete");
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("Nothing is kept yet.").waitFor();
    assert.equal(await heading.innerText(), "Playground");

    await importFile(page, { name: json.name, mimeType: "application/json", buffer: Buffer.from(json.text) });
    await page.locator(".turn.user").filter({ hasText: STORY }).waitFor();
    assert.deepEqual([await version(page, 0), await version(page, 1)], ["‹\n1/2\n›", "‹\n1/2\n›"]);
    await page.getByRole("button", { name: "Conversations" }).click();
    await page.locator('input[type="file"]').setInputFiles({ ...fileOf(null, []), buffer: Buffer.from("{}") });
    await page.getByText("no conversations of Pagoda").waitFor();
    assert.deepEqual(complaints, []);
  });

  test("tool calls are shown, and take their result; the model's words to itself are folded", async () => {
    const { page, complaints } = await lab.open({}, lab.quick.url);
    await withFields(page, { tool_choice: "required", parallel_tool_calls: false });
    await page.getByText("Parameters").click();
    const tools = page.getByLabel("Tools, as a JSON list");
    await tools.fill("{");
    await ask(page, STORY, 60);
    assert.equal(await page.locator(".turn").count(), 0, "settings that are wrong send nothing");
    const parameters = { type: "object", properties: { size: { enum: ["big"] } }, required: ["size"] };
    await tools.fill(JSON.stringify([{ name: "find_dragon", parameters }]));
    await ask(page, STORY, 60);
    await answered(page);
    const call = page.locator(".call");
    assert.match(await call.innerText(), /Calls find_dragon/);
    assert.deepEqual(JSON.parse(await call.locator("pre").innerText()), { size: "big" });
    await withFields(page, { tool_choice: "none" });
    await page.getByLabel("Max tokens").fill("4");
    await page.getByLabel("Result of find_dragon").fill("one, red");
    await page.keyboard.press("Enter");
    await until("an answer to the result", async () => (await page.locator(".turn.assistant").count()) === 2);
    await answered(page);
    assert.match(await page.locator(".turn.tool").innerText(), /one, red/);

    const reasoning = "First I think.";
    await importFile(
      page,
      fileOf(null, [
        { role: "user", content: "?" },
        { role: "assistant", content: "So.", reasoning },
      ]),
    );
    await page.getByText("So.", { exact: true }).waitFor();
    assert.equal(await page.getByText(reasoning).isVisible(), false);
    await page.getByText("Reasoning", { exact: true }).click();
    assert.equal(await page.getByText(reasoning).isVisible(), true);
    assert.deepEqual(complaints, []);
  });

  test("of several models one is chosen: its first request loads it, and then its steps are seen", async () => {
    const load = () => createEngine({ numPages: 64, seed: 12 });
    const host = await lab.serve({ guests: [{ name: "guest", load }] });
    const { page, complaints } = await lab.open({}, host.url);
    const model = page.getByLabel("Model");
    await page.locator("option", { hasText: "guest (not loaded)" }).waitFor({ state: "attached" });
    await model.selectOption("guest");
    const status = page.getByRole("status").first();
    await status.filter({ hasText: "not loaded" }).waitFor();
    await ask(page, STORY, 3);
    await answered(page);
    await status.filter({ hasText: "ready" }).waitFor();
    const models = async () => (await model.locator("option").allInnerTexts()).join();
    await until("the guest is loaded", async () => (await models()) === "pagoda-stories-16m,guest");
    await until(
      "the guest's three steps",
      async () => (await page.locator(".timeline").getAttribute("aria-valuemax")) === "2",
    );
    const refusal = await fetch(`${host.url}api/stats?model=nobody`);
    assert.equal(refusal.status, 404);
    assert.deepEqual(complaints, []);
    await host.server.close(0);
  });
}
