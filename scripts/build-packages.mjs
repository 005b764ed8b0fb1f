// Builds the native library for every system that this machine has a compiler for, each into its folder of packages/. A system whose
// compiler is absent is named and left out; .github/workflows/packages.yml builds each where it is at home.
//   npm run build:packages [NAME...]              linux-x64 linux-arm64 win32-x64 ...
//   npm run build:packages -- --check [NAME...]   builds the native tests over the same objects too, as build/package-NAME/check;
//                                                 scripts/test-packages.mjs runs them
//   npm run build:packages -- --release           adds the packages to package.json as optional dependencies, for publishing only: a
//                                                 lock file cannot name what is not published yet
// Needs: apt-get install g++ g++-aarch64-linux-gnu g++-mingw-w64-x86-64, and `zig` on the path (its compiler has the C libraries of other
// systems with it) for musl and macOS elsewhere than at home.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compile, findCompiler, libraryName, root } from "./native/compile.mjs";
import { checkPackage } from "./packages/check.mjs";

/** Libraries are self-contained: nothing but the system's C library is asked for when they are loaded. */
const STATIC = ["-static-libstdc++", "-static-libgcc"];
const isHere = (platform, arch) => process.platform === platform && process.arch === arch;
const isMusl = existsSync("/etc/alpine-release");
const zig = (target) => ["zig", "c++", "-target", target];
/** Without it a library asks for the system that it was built on. */
const CLANG = ["clang++", "-mmacosx-version-min=11.0"];

/** name -> { platform, arch, compilers, link }. */
const TARGETS = {
  "linux-x64": {
    platform: "linux",
    arch: "x64",
    compilers: !isMusl && isHere("linux", "x64") ? ["g++"] : ["x86_64-linux-gnu-g++"],
  },
  "linux-x64-musl": {
    platform: "linux",
    arch: "x64",
    compilers: isMusl ? ["g++"] : [zig("x86_64-linux-musl")],
    link: isMusl ? STATIC : [],
  },
  "linux-arm64": { platform: "linux", arch: "arm64", compilers: ["aarch64-linux-gnu-g++"] },
  "win32-x64": { platform: "win32", arch: "x64", compilers: ["x86_64-w64-mingw32-g++-posix"], link: ["-static"] },
  "darwin-arm64": {
    platform: "darwin",
    arch: "arm64",
    compilers: isHere("darwin", "arm64") ? [CLANG] : [zig("aarch64-macos.11.0")],
    link: [],
  },
  "darwin-x64": {
    platform: "darwin",
    arch: "x64",
    compilers: isHere("darwin", "x64") ? [CLANG] : [zig("x86_64-macos.11.0")],
    link: [],
  },
};

/**
 * Functions of newer versions than the oldest glibc, in their older form: the linker puts ours (packages/glibc.c) before them, which
 * call the old ones by name.
 */
const WRAPPED = [
  ...["exp", "log", "pow", "fstat", "arc4random", "_dl_find_object", "__libc_single_threaded"],
  ...[
    "create",
    "join",
    "detach",
    "setaffinity_np",
    "once",
    "key_create",
    "key_delete",
    "setspecific",
    "getspecific",
  ].map((name) => `pthread_${name}`),
  "__pthread_key_create",
];

function oldGlibc(compiler, folder) {
  const object = join(folder, "glibc.o");
  const said = spawnSync(
    compiler.name,
    ["-x", "c", "-O2", "-fPIC", "-c", join(root, "packages", "glibc.c"), "-o", object],
    { encoding: "utf8" },
  );
  if (said.status !== 0) throw new Error(said.stderr);
  return [object, `-Wl,${WRAPPED.map((name) => `--wrap=${name}`).join(",")}`];
}

const checkName = ({ platform }) => (platform === "win32" ? "check.exe" : "check");

async function buildOne(name) {
  const target = { kind: "library", link: STATIC, ...TARGETS[name] };
  const compiler = findCompiler(target.compilers);
  if (compiler === null) {
    console.log(`${name}: no compiler for it here`);
    return;
  }
  const objects = join(root, "build", `package-${name}`);
  mkdirSync(objects, { recursive: true });
  const isGlibc = target.platform === "linux" && !name.endsWith("musl");
  const compat = isGlibc ? oldGlibc(compiler, objects) : [];
  const file = join(root, "packages", name, libraryName(target.platform));
  const onProgress = (done, total) =>
    process.stderr.write(`\r${name}: ${done} of ${total}${done === total ? "\n" : ""}`);
  const linked = { ...target, link: [...target.link, ...compat, "-s"] };
  await compile(linked, compiler, objects, file, onProgress);
  const found = checkPackage(name);
  if (process.argv.includes("--check"))
    await compile({ ...linked, kind: "check" }, compiler, objects, join(objects, checkName(target)), onProgress);
  console.log(`${name}: ${file}, by ${compiler.version}: ${found}`);
}

/** Where the source is: provenance is refused to a package that names another place than the one it was built in. */
function sourceFields(directory) {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env;
  if (server === undefined || repository === undefined)
    throw new Error("A release is built by GitHub Actions, which set GITHUB_SERVER_URL and GITHUB_REPOSITORY.");
  const url = `${server}/${repository}`;
  return {
    repository: { type: "git", url: `git+${url}.git`, ...(directory === undefined ? {} : { directory }) },
    homepage: `${url}#readme`,
    bugs: `${url}/issues`,
  };
}

/** Every package at the version of this one, and this one with all of them as optional dependencies. */
function prepareRelease() {
  const main = join(root, "package.json");
  const own = JSON.parse(readFileSync(main, "utf8"));
  const folders = readdirSync(join(root, "packages"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  Object.assign(own, sourceFields());
  for (const { name } of folders) {
    const file = join(root, "packages", name, "package.json");
    const part = JSON.parse(readFileSync(file, "utf8"));
    for (const needed of part.files) {
      if (!existsSync(join(root, "packages", name, needed))) throw new Error(`packages/${name} has no ${needed}`);
    }
    writeFileSync(
      file,
      `${JSON.stringify({ ...part, version: own.version, ...sourceFields(`packages/${name}`) }, null, 2)}\n`,
    );
    own.optionalDependencies[part.name] = own.version;
  }
  writeFileSync(main, `${JSON.stringify(own, null, 2)}\n`);
}

const names = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
if (process.argv.includes("--release")) prepareRelease();
else for (const name of names.length > 0 ? names : Object.keys(TARGETS)) await buildOne(name);
