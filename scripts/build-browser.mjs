// Bundles dist/src/browser into dist/browser: `pagoda/browser`, for pages and for other bundlers. What the engine takes from Node is
// replaced by src/browser/node, and the parts that a browser cannot have by their twins in src/browser. An import of Node that nobody
// replaced fails the build.
//   node scripts/build-browser.mjs [OUT]
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, "dist", "src");
const inBrowser = (name) => join(source, "browser", name);
const NODE = {
  "node:fs": inBrowser("node/fs.js"),
  "node:path": inBrowser("node/path.js"),
  ...Object.fromEntries(
    ["child_process", "crypto", "url", "vm", "worker_threads"].map((name) => [
      `node:${name}`,
      inBrowser("node/others.js"),
    ]),
  ),
};
/** File -> what stands in its place. */
const TWINS = {
  [join(source, "config/version.js")]: inBrowser("version.js"),
  [join(source, "engine/core/load/devices.js")]: inBrowser("devices.js"),
  [join(source, "engine/client/host.js")]: inBrowser("no-host.js"),
  [join(source, "engine/client/text-thread.js")]: inBrowser("no-text-thread.js"),
  [join(source, "engine/client/pictures/picture-thread.js")]: inBrowser("no-picture-thread.js"),
  [join(source, "engine/client/pictures/fetch-picture.js")]: inBrowser("no-fetch-picture.js"),
  [join(source, "formats/hub/hub.js")]: inBrowser("hub.js"),
  [join(source, "formats/hub/hub-cache.js")]: inBrowser("hub.js"),
  [join(source, "grammar/xgrammar/xgrammar-compiler.js")]: inBrowser("no-grammar.js"),
};

const forBrowser = () => ({
  name: "pagoda-browser",
  enforce: "pre",
  resolveId(id, importer) {
    if (id.startsWith("node:")) {
      if (NODE[id] === undefined) throw new Error(`${importer} imports ${id}, which a browser does not have`);
      return NODE[id];
    }
    if (importer === undefined || !id.startsWith(".")) return null;
    return TWINS[join(dirname(importer), id)] ?? null;
  },
});

await build({
  configFile: false,
  root,
  base: "./",
  publicDir: false,
  logLevel: "warn",
  plugins: [forBrowser()],
  worker: { format: "es", plugins: () => [forBrowser()] },
  build: {
    target: "esnext",
    outDir: process.argv[2] ?? join(root, "dist", "browser"),
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: { index: inBrowser("index.js") },
      preserveEntrySignatures: "strict",
      output: { entryFileNames: "[name].js" },
    },
  },
});
