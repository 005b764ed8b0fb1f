// The page of a router, in front of two replicas of the bundled model: rows, a request's way when its replica leaves, prefix heat.

import assert from "node:assert/strict";
import { test } from "node:test";
import { clusterRoute } from "../../src/cli/cluster/cluster-view.js";
import { BUNDLED_MODEL } from "../../src/config/engine-config.js";
import { createServer } from "../../src/server/server.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { SmallCluster } from "../support/small-cluster.js";
import { type Lab, until } from "./lab.js";
import { objections, WIDTHS } from "./layout-tests.js";

const OPENING = "Once upon a time there was a girl named Lily who had a red boat and a dog named Max. ";

export function clusterTests(lab: Lab): void {
  test("a router's page: replicas, the way of a request whose replica leaves, prefix heat; at every width, by keyboard, axe finds nothing", {
    skip: whyNoNats(),
  }, async () => {
    await using nats = await TestNats.start();
    const replica = { engine: { model: BUNDLED_MODEL, numPages: 512 } };
    await using cluster = await SmallCluster.start(nats.url, { model: BUNDLED_MODEL, replicas: [replica, replica] });
    const { engine, router, config } = cluster;
    const view = clusterRoute(router.router, config.cluster, (_, tokens) => engine.tokenizer.decode(tokens));
    const server = createServer(engine, { port: 0, logLevel: "silent", routes: [view] });
    const { page, complaints } = await lab.open({ viewport: WIDTHS[3] }, `${(await server.listen()).url}/`);
    try {
      for (const word of ["One", "Two", "Three"])
        await engine.generate(OPENING + word, { maxTokens: 2, ignoreEos: true }).result();
      const running = engine.generate("A long story.", { maxTokens: 300, ignoreEos: true, id: "long-one" });
      const first = running[Symbol.asyncIterator]();
      await first.next();
      const chosen = router.router.journeys.list()[0]!.events[0];
      assert.ok(chosen?.type === "chosen");
      const members = cluster.replicas.map(({ member }) => member);
      const gone = members.find(({ id }) => id === chosen.replica)!;
      const left = members.find((member) => member !== gone)!;
      await gone.close();
      await running.result();

      const region = (name: string) => page.getByRole("region", { name, exact: true });
      for (const name of ["Live", "Replicas", "Requests", "Prefix heat"]) {
        await region(name).waitFor();
        await page.getByRole("link", { name, exact: true }).waitFor();
      }
      for (const name of ["Steps", "Pages", "Prefixes"]) {
        assert.equal(await region(name).count(), 0, name);
        assert.equal(await page.getByRole("link", { name, exact: true }).count(), 0, name);
      }
      const rows = region("Replicas").locator("tbody tr");
      await rows.filter({ hasText: left.id }).waitFor();
      await until("the other row gone", async () => (await rows.filter({ hasText: gone.id }).count()) === 0);
      // The hit rate is there once the replica has told of an answer that ended.
      const told = /both\tready\t\d+ of 64\t.*\t(\d\d?(\.\d)?|100) %\t[\d.]+ m?s\t/;
      await until("its load, hit rate and latency", async () => told.test(await rows.innerText()));
      await region("Replicas")
        .getByText(/[1-9]\d* lost/)
        .waitFor();

      const way = page.locator(".way");
      await way.getByText("length after 300 tokens").waitFor();
      const titles = await way.locator("li b").allInnerTexts();
      const beginning = ["Received", "Matched", "Sent to", "First token", "Lost", "Matched", "Sent to"];
      assert.deepEqual(titles.slice(0, beginning.length), beginning);
      const words = await way.innerText();
      assert.match(words, new RegExp(`Lost\\s+${gone.id}: it left the cluster; \\d+ tokens? had come`));
      assert.match(words, new RegExp(`Sent to\\s+${left.id}: first token expected after [\\d.]+ m?s, the only one`));
      assert.match(words, /length after 300 tokens, [0-4] of the prompt cached/);

      const heat = region("Prefix heat").locator("tbody tr").first();
      const hot = /Once upon a time.*\t16\t3\t\d+ %\t[01] of 1\t48/;
      await until("the prefix that is asked for most", async () => hot.test(await heat.innerText()));

      // The oldest request, by keyboard: it was one of two replicas that were chosen from.
      const oldest = region("Requests").getByRole("button").last();
      await oldest.focus();
      await page.keyboard.press("Enter");
      await until("its way", async () => (await way.locator("li b").count()) === 5);
      assert.equal(await oldest.getAttribute("aria-pressed"), "true");
      assert.equal(await way.locator("tbody tr").count(), 2, "the chosen one and the other");
      assert.equal(
        await page.evaluate("document.activeElement.dataset.request !== undefined"),
        true,
        "the focus stays",
      );

      for (const { width, height, colorScheme } of WIDTHS) {
        await page.setViewportSize({ width, height });
        await page.emulateMedia({ colorScheme });
        await page.getByRole("button", { name: "Cluster", exact: true }).click();
        assert.ok(Number(await page.evaluate("document.documentElement.scrollWidth")) <= width, `at ${width}`);
        assert.deepEqual(await objections(page), [], `at ${width}`);
      }
      assert.deepEqual(complaints, []);
    } finally {
      await page.context().close();
      await server.close(0);
    }
  });
}
