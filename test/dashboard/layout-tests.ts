// The dashboard at the widths people have: nothing covered, nothing cut, nothing stretched, and nothing that axe objects to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { fileOf, importFile, type Lab, until } from "./lab.js";

const axe = (): string => readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SAID = fileOf("A little of everything", [
  { role: "user", content: "How?" },
  { role: "assistant", content: "So." },
  {
    ...{ role: "assistant", parent: "1", reasoning: "Hm.", facts: ["3 tokens", "2 tokens/s"] },
    content: `## Like this\n\n- [x] one [link](https://example.org)\n\n> a quote\n\n\`\`\`ts\nconst x: string = "a"; // ${"long ".repeat(30)}\n\`\`\`\n\n|a|b|\n|-|-|\n|1|2|`,
  },
  { role: "assistant", content: "", toolCalls: [{ id: "c", name: "look_up", arguments: '{"a":[1,null]}' }] },
]);

async function objections(page: Page): Promise<string[]> {
  await page.evaluate(axe());
  const violations = (await page.evaluate("axe.run().then(({ violations }) => violations)")) as {
    id: string;
    help: string;
    nodes: { html: string }[];
  }[];
  return violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`,
  );
}

const IS_SEND_COVERED = `(() => {
  const button = document.querySelector('.composer [type="submit"]');
  const { left, top, right, bottom } = button.getBoundingClientRect();
  const isInside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  return !isInside || document.elementFromPoint((left + right) / 2, (top + bottom) / 2) !== button;
})()`;
const CHARTS = "[...document.querySelectorAll('.chart')].map(({ offsetWidth, offsetTop }) => [offsetWidth, offsetTop])";

export function layoutTests(lab: Lab): void {
  for (const [width, height] of [
    [390, 844],
    [768, 1024],
    [1024, 768],
    [1440, 900],
  ] as const) {
    test(`${width} pixels wide: everything fits, and axe finds nothing`, async () => {
      // Both themes, at two widths each.
      const colorScheme = width === 768 || width === 1440 ? "dark" : "light";
      const { page, complaints } = await lab.open({ viewport: { width, height }, colorScheme });
      const isWide = width > 992;
      const check = async (view: string): Promise<void> => {
        assert.ok(Number(await page.evaluate("document.documentElement.scrollWidth")) <= width, `${view} is too wide`);
        assert.deepEqual(await objections(page), [], `${view} at ${width}`);
      };
      await importFile(page, SAID);
      for (const drawer of ["Traffic", "Parameters"]) await page.getByText(drawer, { exact: true }).click();
      await page.getByText("Reasoning", { exact: true }).click();
      assert.equal(await page.evaluate(IS_SEND_COVERED), false, "Send is covered");
      await check(isWide ? "both" : "chat");
      if (!isWide) assert.equal(await page.locator("#engine").isVisible(), false);
      if (width === 1440) {
        await page.getByRole("button", { name: "Chat", exact: true }).click();
        assert.equal(await page.locator("#engine").isVisible(), false);
      }
      await page.getByRole("button", { name: "Conversations" }).click();
      await page.locator(".menu summary").first().click();
      await check("the list");

      await page.getByRole("button", { name: "Engine", exact: true }).click();
      // Nobody scrolled: the trie is there all the same.
      await until("the trie", async () => (await page.getByRole("treeitem").count()) > 0);
      const charts = (await page.evaluate(CHARTS)) as [width: number, top: number][];
      const widths = charts.map(([chart]) => chart);
      assert.ok(Math.max(...widths) - Math.min(...widths) <= 2 && widths.length === 6, `charts of ${widths}`);
      assert.equal(
        new Set(charts.map(([, top]) => top)).size,
        { 390: 3, 768: 2, 1024: 2, 1440: 1 }[width],
        "rows of charts",
      );
      await check("the engine");
      assert.deepEqual(complaints, []);
      await page.context().close();
    });
  }
}
