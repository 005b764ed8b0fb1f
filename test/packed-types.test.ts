// The types that the package ships, as a stranger's strict TypeScript sees them: the program of the README, fully typed and without a cast,
// and the same mounted in Hono and Next.js. Nothing else of this tree is in sight.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, test } from "node:test";

const app = mkdtempSync(join(tmpdir(), "pagoda-types-"));
after(() => rmSync(app, { recursive: true, force: true }));

function install(): void {
  const modules = join(app, "node_modules");
  const packed = join(modules, "pagoda");
  mkdirSync(packed, { recursive: true });
  cpSync("package.json", join(packed, "package.json"));
  cpSync("dist/src", join(packed, "dist/src"), {
    recursive: true,
    filter: (file) => !/\.(js|map)$|\.test\./.test(file),
  });
  mkdirSync(join(modules, "@types"));
  for (const name of ["zod", "hono", "@types/node", "undici-types"])
    symlinkSync(resolve("node_modules", name), join(modules, name));
  writeFileSync(join(app, "package.json"), JSON.stringify({ type: "module" }));
  const compilerOptions = {
    ...{ target: "es2022", module: "nodenext", strict: true, noEmit: true, types: ["node"] },
    ...{ exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false },
  };
  writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["**/*.ts"] }));
}

/** The compiler's errors about these programs. */
function errorsOf(programs: Readonly<Record<string, string>>): string {
  for (const [name, text] of Object.entries(programs)) {
    mkdirSync(dirname(join(app, name)), { recursive: true });
    writeFileSync(join(app, name), text);
  }
  const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, "-p", app], { encoding: "utf8" });
  for (const name of Object.keys(programs)) rmSync(join(app, name));
  return stdout + stderr;
}

/** The block of the README that begins with this line. */
function readmeProgram(firstLine: string): string {
  const blocks = [...readFileSync("README.md", "utf8").matchAll(/```ts\n(.*?)```/gs)].map(([, text]) => text!);
  return blocks.find((text) => text.includes(firstLine))!;
}

const HONO = `import { Hono } from "hono";
import { createEngine, createHandler } from "pagoda";

const app = new Hono();
app.mount("/llm", createHandler(await createEngine()));
export default app;
`;

const NEXT = `import { createEngine, createHandler } from "pagoda";

const handler = createHandler(await createEngine(), { basePath: "/api/llm" });
export { handler as DELETE, handler as GET, handler as POST };
export const route: (request: Request, context: { params: Promise<{ path: string[] }> }) => Response | Promise<Response> = handler;
`;

test("two tools and a zod object in 15 lines, typed without a cast; mounted in Hono and Next.js", () => {
  install();
  const program = readmeProgram("engine.run(");
  assert.ok(program.trimEnd().split("\n").length <= 15, "it stays short");
  assert.doesNotMatch(program, /\bas\b(?! const)|\bany\b|@ts-/);
  assert.equal(errorsOf({ "tools.ts": program, "hono.ts": HONO, "app/api/llm/[...path]/route.ts": NEXT }), "");
  // What is wrong does not compile: an argument that the schema has not, a colour that is none, a message of no role.
  const wrong = program
    .replace("({ city }) => city.length", "({ town }) => town.length")
    .replace("object.warmer,", "object.colder,");
  assert.match(errorsOf({ "tools.ts": wrong }), /'town' does not exist[\s\S]*'colder' does not exist/);
  const role = `import type { ChatMessage } from "pagoda";\nexport const said: ChatMessage = { role: "usr", content: "a" };\n`;
  assert.match(errorsOf({ "role.ts": role }), /"usr"/);
});
