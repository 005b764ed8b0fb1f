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

export async function objections(page: Page): Promise<string[]> {
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe());
  // Without transitions: a colour on its way to another is neither of them.
  await page.emulateMedia({ reducedMotion: "reduce" });
  // What passes is not worked out.
  const run = `axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)`;
  const violations = (await page.evaluate(run)) as {
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
const CHARTS =
  "[...document.querySelectorAll('.chart:not([hidden])')].map(({ offsetWidth, offsetTop }) => [offsetWidth, offsetTop])";

export const WIDTHS = [
  { width: 390, height: 844, colorScheme: "light", rowsOfCharts: 3 },
  { width: 768, height: 1024, colorScheme: "dark", rowsOfCharts: 2 },
  { width: 1024, height: 768, colorScheme: "light", rowsOfCharts: 2 },
  { width: 1440, height: 900, colorScheme: "dark", rowsOfCharts: 1 },
] as const;

export function layoutTests(lab: Lab): void {
  test("at every width everything fits, and axe finds nothing", async () => {
    await lab.quickEngine
      .generate("Once upon a time there was a girl named Lily who had a red boat.", { maxTokens: 1 })
      .result();
    const { page, complaints } = await lab.open({ viewport: WIDTHS[0] }, lab.quick.url);
    const press = (name: string): Promise<void> => page.getByRole("button", { name, exact: true }).click();
    await press("Engine");
    // Nobody scrolled: the trie is there all the same.
    await until("the trie", async () => (await page.getByRole("treeitem").count()) > 0);
    await press("Chat");
    await importFile(page, SAID);
    for (const drawer of ["Traffic", "Parameters", "Reasoning"]) await page.getByText(drawer, { exact: true }).click();

    for (const { width, height, colorScheme, rowsOfCharts } of WIDTHS) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      const check = async (view: string): Promise<void> => {
        assert.ok(Number(await page.evaluate("document.documentElement.scrollWidth")) <= width, `${view} at ${width}`);
        assert.deepEqual(await objections(page), [], `${view} at ${width}`);
      };
      await press("Conversations");
      await page.locator(".menu summary").first().click();
      await check("the list");
      await press("Conversations");
      if (width > 992) await press("Both");
      await until(`Send in sight at ${width}`, async () => (await page.evaluate(IS_SEND_COVERED)) === false);
      await check("the chat");

      await press("Engine");
      await until(`six charts of one width in ${rowsOfCharts} rows at ${width}`, async () => {
        const charts = (await page.evaluate(CHARTS)) as [width: number, top: number][];
        const widths = charts.map(([chart]) => chart);
        const isEven = Math.max(...widths) - Math.min(...widths) <= 2 && widths.length === 6;
        return isEven && new Set(charts.map(([, top]) => top)).size === rowsOfCharts;
      });
      await check("the engine");
      await press("Chat");
    }

    await press("Engine");
    await press("As a table");
    assert.deepEqual(await objections(page), [], "the table");
    await press("Chat");
    await press("Conversations");
    await page.locator(".menu summary").first().click();
    await press("Delete");
    assert.deepEqual(await objections(page), [], "a dialog");
    assert.deepEqual(complaints, []);
  });
}
