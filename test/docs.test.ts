// What the pages for users name exists: environment variables, commands and their flags.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { COMMANDS } from "../src/cli/commands.js";
import { CLUSTER_OPTIONS, REPLICA_OPTIONS, ROUTER_OPTIONS } from "../src/config/cluster-config.js";
import { ENGINE_OPTIONS } from "../src/config/engine-config.js";
import { envOf, flagOf, refuseUnknownVariables } from "../src/config/options.js";
import { SERVER_OPTIONS } from "../src/config/server-config.js";
import { TEST_VARIABLES, VARIABLES } from "../src/config/variables.js";

const docs = readdirSync("docs", { recursive: true, encoding: "utf8" }).map((name) => join("docs", name));
const pages = [...docs, "README.md", "SECURITY.md"]
  .filter((path) => path.endsWith(".md"))
  .map((path) => ({ path, text: readFileSync(path, "utf8") }));

const OPTION_VARIABLES = [ENGINE_OPTIONS, SERVER_OPTIONS, CLUSTER_OPTIONS, REPLICA_OPTIONS, ROUTER_OPTIONS]
  .flatMap((table) => Object.keys(table))
  .map(envOf);

test("every variable that a page names exists, and every one that is read is on a page", () => {
  const known = new Set([
    ...OPTION_VARIABLES,
    ...Object.keys(VARIABLES),
    ...TEST_VARIABLES,
    "PAGODA_CONFIG",
    "PAGODA_URL",
  ]);
  const named = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/PAGODA_[A-Z_]*[A-Z]/g)].map(([name]) => ({ path, name })),
  );
  assert.deepEqual(
    named.filter(({ name }) => !known.has(name)),
    [],
  );
  const sources = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((name) =>
    /(?<!\.test)\.ts$/.test(name),
  );
  const read = sources.flatMap((name) =>
    [...readFileSync(join("src", name), "utf8").matchAll(/env\.(PAGODA_[A-Z_]+)/g)].map(([, variable]) => variable!),
  );
  const onPage = new Set(named.map(({ name }) => name));
  assert.deepEqual(
    read.filter((name) => !onPage.has(name)),
    [],
  );
});

test("the tests that SECURITY.md names for its promises are here", () => {
  const { text } = pages.find(({ path }) => path === "SECURITY.md")!;
  const named = [...text.matchAll(/`((?:src|test)\/[^`]+)`/g)].map(([, path]) => path!);
  assert.ok(named.length > 20);
  assert.deepEqual(
    named.filter((path) => !existsSync(path)),
    [],
  );
});

/** The name that a heading's link has. */
const anchorOf = (heading: string) =>
  heading
    .replaceAll(/`|\*|\[([^\]]*)\]\([^)]*\)/g, "$1")
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

test("every link of a page to a file or a heading leads there", () => {
  const anchors = (path: string): string[] =>
    [
      ...readFileSync(path, "utf8")
        .replaceAll(/```[\s\S]*?```/g, "")
        .matchAll(/^#+ (.*)$/gm),
    ].map(([, text]) => anchorOf(text!));
  const more = ["CONTRIBUTING.md", "CHANGELOG.md"].map((path) => ({ path, text: readFileSync(path, "utf8") }));
  const links = [...pages, ...more].flatMap(({ path, text }) =>
    [...text.replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, "").matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !/^[a-z]+:/.test(link))
      .map((link) => ({ path, link })),
  );
  assert.ok(links.length > 100, `${links.length} links`);
  const dead = links.filter(({ path, link }) => {
    const [file, anchor] = link.split("#");
    const target = file === "" ? path : join(dirname(path), file!);
    if (!existsSync(target)) return true;
    return anchor !== undefined && target.endsWith(".md") && !anchors(target).includes(anchor);
  });
  assert.deepEqual(dead, []);
});

test("no variable of the pages stops a server", () => {
  const env = Object.fromEntries(
    [...Object.keys(VARIABLES), ...TEST_VARIABLES, ...OPTION_VARIABLES].map((name) => [name, "1"]),
  );
  const all = { ...ENGINE_OPTIONS, ...SERVER_OPTIONS, ...CLUSTER_OPTIONS, ...REPLICA_OPTIONS, ...ROUTER_OPTIONS };
  refuseUnknownVariables(all, env);
  assert.throws(() => refuseUnknownVariables(all, { PAGODA_PIN_THREAD: "1" }), { code: "unknown_option" });
});

test("every command line of a page has a command and flags that exist", async () => {
  const wrong: string[] = [];
  let numFlags = 0;
  for (const { path, text } of pages) {
    const code = [...text.matchAll(/```(?:sh|bash|console)\n([\s\S]*?)```|`([^`\n]+)`/g)].map(
      ([, block, inline]) => block ?? inline!,
    );
    const lines = code.flatMap((part) => part.replaceAll("\\\n", " ").split("\n"));
    for (const line of lines) {
      const [, name, rest] = /(?:^|\s)(?:pagoda|bin\/pagoda\.js) ([a-z]+(?:-[a-z]+)*)\b([^|#]*)/.exec(line) ?? [];
      if (name === undefined) continue;
      const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name]! : undefined;
      if (command === undefined) {
        wrong.push(`${path}: pagoda ${name}`);
        continue;
      }
      const table = await command.options();
      const flags = new Set([
        "--help",
        "--",
        ...Object.keys(table).flatMap((key) => [flagOf(key), flagOf(key).replace("--", "--no-")]),
      ]);
      for (const [flag] of rest!.matchAll(/(?<=\s)--[a-z-]*/g)) {
        numFlags++;
        if (!flags.has(flag)) wrong.push(`${path}: ${name} ${flag}`);
      }
    }
  }
  assert.ok(numFlags > 20, `${numFlags} flags`);
  assert.deepEqual(wrong, []);
});

test("the README's chart shows the measured file, and the benchmarks' page has the same figures", () => {
  execFileSync(process.execPath, ["scripts/draw-peers.mjs", "--check"]);
  const page = readFileSync("docs/laboratory/benchmarks.md", "utf8").replaceAll(",", "");
  const runs = JSON.parse(readFileSync("docs/laboratory/measured/peers.json", "utf8")) as {
    rows: { what: string; pagoda: number; peer: number }[];
  }[];
  const absent = runs
    .flatMap(({ rows }) => rows)
    .filter(({ pagoda, peer }) => ![pagoda, peer].every((figure) => new RegExp(`\\b${figure}\\b`).test(page)));
  assert.deepEqual(absent, []);
});

test("the pages for users are plain: no sentence of more than 30 words, none of the words to avoid", () => {
  const { status, stdout } = spawnSync(process.execPath, ["scripts/prose.mjs", "--check"], { encoding: "utf8" });
  assert.equal(status, 0, stdout);
});
