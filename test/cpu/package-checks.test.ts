// What npm run build:packages refuses (scripts/packages): the library of this machine, read without tools, and then with one thing wrong.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ensureLibrary, libraryChoice, loadLibrary } from "../../src/device/cpu/library.js";

interface Binary {
  readonly platform: string;
  readonly arch: string;
  readonly bytes: Buffer;
  readonly exports: Map<string, number>;
  readonly imports: string[];
  readonly libraries: string[];
  readonly minimumSystem?: readonly [number, number];
  readonly isSigned?: boolean;
  readonly isTwoLevel?: boolean;
}
interface System {
  readonly platform: string;
  readonly arch: string;
  readonly libc?: string;
}

const scripts = new URL("../../../scripts/packages/", import.meta.url).href;
const { readBinary } = (await import(`${scripts}binary.mjs`)) as { readBinary(file: string): Binary };
const { faultsOf, readHeader } = (await import(`${scripts}check.mjs`)) as {
  faultsOf(binary: Binary, system: System): string[];
  readHeader(): { functions: string[]; version: number };
};

/** A library as it should be, of code for x64 that begins with `mov eax, VERSION`. */
function goodLibrary(): Binary {
  const { functions, version } = readHeader();
  return {
    platform: "linux",
    arch: "x64",
    bytes: Buffer.from([0xf3, 0x0f, 0x1e, 0xfa, 0xb8, version, 0, 0, 0, 0xc3]),
    exports: new Map(functions.map((name) => [name, 0])),
    imports: ["exp@GLIBC_2.2.5", "memcpy@GLIBC_2.14", "__gmon_start__"],
    libraries: ["libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"],
  };
}
const GLIBC = { platform: "linux", arch: "x64", libc: "glibc" };
const MACOS = { platform: "darwin", arch: "x64" };

test("the library of this machine is read: its system, every function of the header, its libraries", async (t) => {
  await ensureLibrary();
  try {
    loadLibrary();
  } catch (error) {
    t.skip((error as Error).message);
    return;
  }
  const binary = readBinary(libraryChoice()!.path);
  assert.deepEqual([binary.platform, binary.arch], [process.platform, process.arch]);
  for (const name of readHeader().functions) assert.ok(binary.exports.get(name)! > 0, name);
  assert.ok(binary.libraries.length > 0);
  assert.deepEqual(
    faultsOf(binary, { ...GLIBC, platform: process.platform, arch: process.arch === "x64" ? "arm64" : "x64" }).length,
    1,
  );
  // Where its code lies is right: the version is found there.
  assert.ok(!faultsOf(binary, { ...GLIBC, arch: process.arch }).some((fault) => fault.includes("version")));
});

test("a library that is as it should be has no faults", () => {
  assert.deepEqual(faultsOf(goodLibrary(), GLIBC), []);
  const good = { ...goodLibrary(), platform: "darwin", libraries: ["/usr/lib/libSystem.B.dylib"], isTwoLevel: true };
  assert.deepEqual(faultsOf({ ...good, minimumSystem: [11, 0] }, MACOS), []);
});

for (const [what, system, change, fault] of [
  ["for another processor", GLIBC, { arch: "arm64" }, /^it is for linux arm64, not linux x64$/],
  ["without a function", GLIBC, { exports: new Map([["pg_isa", 0]]) }, /^it lacks pg_abi_version, /],
  [
    "that shows a name of the C++ library",
    GLIBC,
    { exports: new Map([...goodLibrary().exports, ["_ZSt9terminatev", 0]]) },
    /^it shows 1 names that are not its interface: _ZSt9terminatev$/,
  ],
  ["that needs a C++ library", GLIBC, { libraries: ["libstdc++.so.6"] }, /^it needs libstdc\+\+\.so\.6, /],
  [
    "of a newer glibc",
    GLIBC,
    { imports: ["exp@GLIBC_2.29"] },
    /^it needs a glibc newer than 2\.28 for exp@GLIBC_2\.29$/,
  ],
  ["of another interface", GLIBC, { bytes: Buffer.from([0xb8, 1, 0, 0, 0]) }, /^its interface is not of version \d+$/],
  [
    "for a newer macOS",
    MACOS,
    { platform: "darwin", libraries: [], isTwoLevel: true, minimumSystem: [13, 0] },
    /^it needs darwin 13\.0$/,
  ],
] as const) {
  test(`a library ${what} is refused`, () => {
    const faults = faultsOf({ ...goodLibrary(), ...(change as Partial<Binary>) }, system);
    assert.equal(faults.length, 1, faults.join("; "));
    assert.match(faults[0]!, fault);
  });
}

test("an unsigned library for macOS on arm64 is refused", () => {
  const { version } = readHeader();
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(0x52800000 | (version << 5));
  const library = { ...goodLibrary(), platform: "darwin", arch: "arm64", libraries: [], bytes, isTwoLevel: true };
  assert.deepEqual(faultsOf({ ...library, isSigned: true }, { platform: "darwin", arch: "arm64" }), []);
  assert.match(faultsOf(library, { platform: "darwin", arch: "arm64" }).join(), /^it is not signed/);
});
