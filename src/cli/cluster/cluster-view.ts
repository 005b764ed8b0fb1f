// What a router shows of its cluster beside what every server shows: GET /api/cluster, metrics, and lines of the log when replicas come and go.

import { statusOf } from "../../cluster/membership/status.js";
import type { ClusterPicture } from "../../cluster/router/picture.js";
import type { Router } from "../../cluster/router/router.js";
import type { ServerContext } from "../../server/context.js";
import type { Route } from "../../server/http/route.js";

/** How many prefixes are told at most. */
const NUM_PREFIXES = 24;

/**
 * What the router's page shows: the replicas as this router knows them, the ways of the last requests, the hottest prefixes. `textOf` spells
 * tokens of a model. One tenant must not read the prompts of another, nor see who they are.
 */
export function clusterRoute(
  router: Router,
  cluster: string,
  textOf: (model: string, tokens: readonly number[]) => string,
): Route {
  return {
    method: "get",
    path: "/api/cluster",
    summary:
      "The replicas of the cluster, the ways of the last requests and the hottest prefixes, as this router knows them",
    handle: (c) => {
      const { models, replicas } = statusOf(cluster, router.replicas());
      const tenant = c.get("tenant");
      const { owners } = c.get("server");
      const { numResumed: resumed, numPrefilled: prefilled, numLost: lost } = router;
      const picture: ClusterPicture = {
        ...{ cluster, models, resumed, prefilled, lost },
        replicas: replicas.map((entry) => ({
          ...entry,
          address: tenant.isAdmin ? entry.address : "",
          prefixPages: router.numPages(entry.id),
          firstTokenMs: router.firstTokenMs(entry.id),
        })),
        requests: router.journeys.list().filter(({ id }) => tenant.isAdmin || owners.isOf(id, tenant)),
        prefixes: router.heat.hottest(NUM_PREFIXES).map(({ key, tokens, ...prefix }) => ({
          ...prefix,
          replicas: router.numHolders(key),
          ...(tenant.isAdmin ? { text: textOf(prefix.model, tokens) } : {}),
        })),
      };
      return c.json(picture);
    },
  };
}

export function watchCluster(router: Router, { log, metrics }: ServerContext): void {
  const { registry } = metrics;
  registry.gauges("pagoda_cluster_replicas", "Replicas that this router knows, by state", (samples) => {
    samples.clear();
    for (const state of ["ready", "draining", "restarting"]) samples.set(0, { state });
    for (const { state } of router.replicas()) samples.add(1, { state });
  });
  registry.counter("pagoda_cluster_resumed_total", "Answers that went on at another replica", () => router.numResumed);
  registry.counter(
    "pagoda_cluster_prefilled_total",
    "Prompts computed ahead by a prefill replica",
    () => router.numPrefilled,
  );
  registry.counter("pagoda_cluster_lost_total", "Replicas that left or were not heard any more", () => router.numLost);
  router.onMember = ({ replica, isHere, reason }) => {
    if (isHere) log.info({ replica }, "a replica is here");
    else log.warn({ replica, reason }, "a replica was lost; its answers continue on another");
  };
}
