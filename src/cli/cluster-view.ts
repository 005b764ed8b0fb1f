// What a router shows of its cluster beside what every server shows: GET /api/cluster, metrics, and lines of the log when replicas come and go.

import { Counter, Gauge } from "prom-client";
import type { Router } from "../cluster/router.js";
import { statusOf } from "../cluster/status.js";
import type { ServerContext } from "../server/context.js";
import type { Route } from "../server/route.js";

/** The replicas as this router knows them, with the pages of prefixes that each is known to hold. */
export function clusterRoute(router: Router, cluster: string): Route {
  return {
    method: "get",
    path: "/api/cluster",
    summary: "The replicas of the cluster, as this router knows them",
    handle: (c) => {
      const { models, replicas } = statusOf(cluster, router.replicas());
      const rows = replicas.map((entry) => ({ ...entry, prefixPages: router.numPages(entry.id) }));
      return c.json({ cluster, models, resumed: router.numResumed, lost: router.numLost, replicas: rows });
    },
  };
}

export function watchCluster(router: Router, { log, metrics }: ServerContext): void {
  const registers = [metrics.registry];
  new Gauge({
    name: "pagoda_cluster_replicas",
    help: "Replicas that this router hears, by state",
    labelNames: ["state"],
    registers,
    collect() {
      this.reset();
      for (const state of ["ready", "draining", "restarting"]) this.set({ state }, 0);
      for (const { state } of router.replicas()) this.inc({ state });
    },
  });
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  };
  counter("pagoda_cluster_resumed_total", "Answers that went on at another replica", () => router.numResumed);
  counter("pagoda_cluster_lost_total", "Replicas that left or were not heard any more", () => router.numLost);
  router.onMember = ({ replica, isHere, reason }) => {
    if (isHere) log.info({ replica }, "a replica is here");
    else log.warn({ replica, reason }, "a replica is gone; its answers go on elsewhere");
  };
}
