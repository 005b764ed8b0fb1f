// What an orchestrator asks: /health (does the engine serve), /ready (send requests here), /version, /metrics.

import { mergeScrapes } from "../metrics/merge-metrics.js";
import { Registry } from "../metrics/registry.js";
import { toVllmNames } from "../metrics/vllm-names.js";
import type { Route } from "./route.js";

export const health: Route = {
  method: "get",
  path: "/health",
  summary: "200 while the engine serves (or a router waits for replicas), 503 while it restarts or when it is dead",
  isOpen: true,
  handle: (c) => {
    const { state, restarts } = c.get("server").engine.health(); // why it died is in the log, and in /api/stats for admins
    const isUp = state === "ready" || state === "asleep" || state === "away"; // restarting a router would bring no replica
    return c.json({ status: state === "ready" ? "ok" : state, restarts }, isUp ? 200 : 503);
  },
};

export const ready: Route = {
  method: "get",
  path: "/ready",
  summary: "200 while new requests are taken, 503 while draining or not serving",
  isOpen: true,
  handle: (c) => {
    const { engine, gate } = c.get("server");
    const { state } = engine.health();
    const status = gate.isDraining ? "draining" : state;
    return c.json({ status }, status === "ready" || status === "asleep" ? 200 : 503);
  },
};

export const version: Route = {
  method: "get",
  path: "/version",
  summary: "The version of the server",
  isOpen: true,
  handle: (c) => c.json({ version: c.get("server").version }),
};

export const metrics: Route = {
  method: "get",
  path: "/metrics",
  summary: "Prometheus metrics",
  isOpen: true,
  handle: async (c) => {
    const { house, config } = c.get("server");
    const scrape = mergeScrapes(await Promise.all(house.loaded.map((context) => context.metrics.render())));
    return c.body(config.metricsNames === "vllm" ? toVllmNames(scrape) : scrape, 200, {
      "content-type": Registry.contentType,
    });
  },
};
