// What deploy/ says must be what the commands take: options that exist, permissions that are tested, YAML that parses.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROUTE_OPTIONS } from "../src/cli/cluster/route.js";
import { SERVE_OPTIONS } from "../src/cli/server/serve.js";
import { envOf } from "../src/config/options.js";

const files = readdirSync("deploy", { recursive: true, encoding: "utf8" })
  .map((name) => join("deploy", name))
  .filter((path) => statSync(path).isFile());
const read = (path: string): string => readFileSync(path, "utf8");

test("every PAGODA_ variable is an option of the commands that get it", () => {
  const envs = (table: object): Set<string> => new Set(Object.keys(table).map(envOf));
  const known = { serve: envs(SERVE_OPTIONS), route: envs(ROUTE_OPTIONS) };
  for (const path of files) {
    const text = read(path).replaceAll(/#.*/g, "");
    const isRouter = path.endsWith("router.yaml");
    for (const [name] of text.matchAll(/PAGODA_[A-Z_]+/g)) {
      assert.ok(known[isRouter ? "route" : "serve"].has(name), `${path}: ${name} is no option`);
    }
  }
});

test("pods do not get variables for services: they would be taken for options", () => {
  for (const path of files.filter((name) => name.includes("kubernetes") && read(name).includes("containers:")))
    assert.match(read(path), /enableServiceLinks: false/, path);
});

test("NATS has the permissions that docs/guide/cluster.md gives and the cluster's tests use", () => {
  const permissions = (text: string): string[] =>
    [...text.matchAll(/"([^"\s]*(?:pagoda|JS|INBOX)[^"\s]*)"/g)].map(([, name]) => name!);
  const documented = /```\n(jetstream \{\}\n[\s\S]*?)```/
    .exec(read("docs/guide/cluster.md"))![1]!
    .replaceAll("CLUSTER", "pagoda");
  assert.deepEqual(permissions(read("deploy/kubernetes/nats.yaml")), permissions(documented));
});

const kubectl = spawnSync("kubectl", ["kustomize", "deploy/kubernetes"], { encoding: "utf8" });
test("kubectl reads the manifests", { skip: kubectl.error === undefined ? false : "no kubectl here" }, () => {
  assert.equal(kubectl.status, 0, kubectl.stderr);
  const kinds = [...kubectl.stdout.matchAll(/^kind: (\w+)$/gm)].map(([, kind]) => kind).sort();
  assert.deepEqual(kinds, ["ConfigMap", "Deployment", "Deployment", "Service", "Service", "StatefulSet"]);
});
