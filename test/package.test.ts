// What a program that installs the package gets: types that need nothing but the package's own dependencies, and fields that tools read.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";

const read = (path: string) => JSON.parse(readFileSync(path, "utf8")) as Record<string, Record<string, string>>;
const own = read("package.json");

/** The declarations that `entry` needs, and the packages that these import. */
function declarationsFrom(entry: string, found = new Map<string, string>()): Map<string, string> {
  if (found.has(entry)) return found;
  const text = readFileSync(entry, "utf8");
  found.set(entry, text);
  for (const [, name] of text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)) {
    if (name!.startsWith(".")) declarationsFrom(resolve(dirname(entry), name!.replace(/\.js$/, ".d.ts")), found);
    else found.set(name!, "");
  }
  return found;
}

for (const [entry, packages] of [
  ["index", ["node:http"]], // whose types come with Node's own
  ["ai/index", ["@ai-sdk/provider"]],
  ["browser/index", []],
] as const) {
  test(`the types of ${entry} import ${packages.join(" and ") || "nothing"} alone and show nothing internal`, () => {
    const found = declarationsFrom(resolve("dist/src", `${entry}.d.ts`));
    assert.deepEqual([...found.keys()].filter((name) => !name.endsWith(".d.ts")).sort(), packages);
    const internal = [...found].filter(([, text]) => text.includes("@internal")).map(([name]) => name);
    assert.deepEqual(internal, []);
  });
}

test("every entry, command and folder of the package is there, and none of them is a page or a picture", () => {
  assert.equal((own.files as unknown as string[]).includes("docs"), false);
  for (const target of Object.values(own.exports!).flatMap((entry) =>
    typeof entry === "string" ? [entry] : Object.values(entry as Record<string, string>),
  ))
    assert.ok(readFileSync(target).length > 0, target);
  for (const file of Object.values(own.bin!)) assert.match(readFileSync(file, "utf8"), /^#!\/usr\/bin\/env node\n/);
});

test("packages that only some programs need are installed by them", () => {
  for (const name of ["@nats-io/kv", "@nats-io/transport-node", "@ai-sdk/provider", "webgpu"]) {
    assert.equal(own.dependencies![name], undefined, name);
    assert.deepEqual(own.peerDependenciesMeta![name], { optional: true });
  }
});

test("the packages of the native libraries have this version", () => {
  for (const entry of readdirSync("packages", { withFileTypes: true }).filter((entry) => entry.isDirectory()))
    assert.equal(read(join("packages", entry.name, "package.json")).version, own.version, entry.name);
});
