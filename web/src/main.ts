// The dashboard: wires the feed to the views.

import { RequestColors } from "./data/request-colors.js";
import { isRouter } from "./data/wire.js";
import { Api } from "./view/api.js";
import { Playground } from "./view/chat/playground.js";
import { Cluster } from "./view/cluster/cluster.js";
import { byId } from "./view/dom.js";
import { AdapterTable } from "./view/engine/adapter-table.js";
import { LiveCharts } from "./view/engine/live-charts.js";
import { PageMap } from "./view/engine/page-map.js";
import { StepDetail } from "./view/engine/step-detail.js";
import { Timeline } from "./view/engine/timeline.js";
import { TrieTree } from "./view/engine/trie-tree.js";
import { Feed } from "./view/feed.js";
import { mountHeader } from "./view/header.js";
import { keyDialog } from "./view/key-dialog.js";

const api = new Api();
const feed = new Feed(api);
const colors = new RequestColors();

mountHeader(feed, keyDialog(api));
new Playground(api, feed, colors);
const charts = new LiveCharts();
const adapters = new AdapterTable();
const timeline = new Timeline(colors);
const detail = new StepDetail(api, colors, (path) => feed.pathOf(path));
const pageMap = new PageMap(colors);
const trie = new TrieTree();
const cluster = new Cluster(api);

timeline.panel.append(detail.element);
timeline.chosen.watch((step) => detail.show(step));
feed.onHistory = (steps) => timeline.reset(steps);
feed.onStep = (step) => {
  timeline.add(step);
  charts.series.addStep(step);
};
feed.model.watch(() => charts.series.clear());
feed.stats.watch((stats) => {
  if (stats === null) return;
  if (isRouter(stats)) cluster.start();
  charts.series.addStats(Date.now() / 1000, stats);
  charts.update();
  if (stats.engine !== null) adapters.show(stats.engine);
});
feed.cache.watch((cache) => {
  if (cache === null) return;
  pageMap.show(cache);
  trie.show(cache);
});
feed.isCacheSeen = watchSight(["pages", "prefixes"]);
feed.start();

/** Tells whether one of these elements is in sight, or nearly. */
function watchSight(ids: readonly string[]): () => boolean {
  const inSight = new Set<Element>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) inSight.add(target);
        else inSight.delete(target);
      }
    },
    { rootMargin: "100px" },
  );
  for (const id of ids) observer.observe(byId(id));
  return () => inSight.size > 0;
}
