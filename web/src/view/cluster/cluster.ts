// What a router's page shows in the place of an engine's steps, pages and prefixes: its replicas, the ways of requests, prefix heat.

import type { ClusterPicture } from "../../data/wire.js";
import type { Api } from "../api.js";
import { byId } from "../dom.js";
import { HeatTable } from "../engine/heat-table.js";
import { ReplicaTable } from "./replica-table.js";
import { RequestWays } from "./request-ways.js";

const LOOK_MS = 1000;
const ENGINE_ONLY = ["steps", "pages", "prefixes"];
const ROUTER_ONLY = ["replicas", "requests", "heat"];

export class Cluster {
  readonly #api: Api;
  #isStarted = false;

  constructor(api: Api) {
    this.#api = api;
  }

  /** The server turns out to be a router. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    for (const id of ENGINE_ONLY) byId(id).hidden = true;
    for (const id of ROUTER_ONLY) byId(id).hidden = false;
    void this.#follow([new ReplicaTable(), new RequestWays(), new HeatTable()]);
  }

  async #follow(views: readonly { show(cluster: ClusterPicture): void }[]): Promise<void> {
    for (;;) {
      try {
        if (!document.hidden) {
          const cluster = await this.#api.json<ClusterPicture>("/api/cluster");
          for (const view of views) view.show(cluster);
        }
      } catch {
        // the header says that the server does not answer
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
}
