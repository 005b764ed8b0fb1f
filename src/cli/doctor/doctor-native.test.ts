// What stands in the way of the native library is told, never thrown: a package that cannot be loaded, an FFI without its binary.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { NativeFindings } from "./doctor-native.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-doctor-"));
after(() => rmSync(folder, { recursive: true, force: true }));

/** In a process of its own: what a process has loaded stays. Without a compiler, for that is the shorter way. */
function examineIn(env: Record<string, string>, ...flags: string[]): NativeFindings {
  const program = `
    import { examineNative } from ${JSON.stringify(new URL("./doctor-native.js", import.meta.url).href)};
    const { device, ...found } = await examineNative();
    device?.close();
    console.log(JSON.stringify({ ...found, device: device === null ? null : {} }));
  `;
  const { stdout, stderr } = spawnSync(process.execPath, [...flags, "--input-type=module", "-e", program], {
    encoding: "utf8",
    env: { ...process.env, CXX: "no-such-compiler", ...env },
  });
  assert.notEqual(stdout, "", stderr);
  return JSON.parse(stdout) as NativeFindings;
}

test("a package that is installed and cannot be loaded is named, with the reason", () => {
  const name = `@pagoda/native-${process.platform}-${process.arch}`;
  const own = join(folder, name);
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "package.json"), JSON.stringify({ name, version: "0.0.0" }));
  writeFileSync(join(own, process.platform === "win32" ? "pagoda_cpu.dll" : "pagoda_cpu.so"), "not a library");
  const found = examineIn({ NODE_PATH: folder });
  assert.match(found.advice.join(), new RegExp(`^${name} is installed and not used: .*pagoda_cpu`));
  assert.doesNotMatch(found.library ?? "", /prebuilt/);
});

test("without koffi's binary for the system there is no native library, and what to do about it", () => {
  const hook = `export async function resolve(name, context, next) {
    if (name === "koffi") throw new Error("no binary of koffi");
    return next(name, context);
  }`;
  const register = join(folder, "register.mjs");
  writeFileSync(
    register,
    `import { register } from "node:module"; register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hook)}`)});`,
  );
  const found = examineIn({}, "--import", register);
  assert.deepEqual([found.device, found.library, found.isToBeCompiled], [null, null, false]);
  assert.equal(found.reason, "no binary of koffi");
  assert.match(found.advice.join(), /--omit=optional/);
});
