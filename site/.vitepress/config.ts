// The documentation site: the pages of docs/ as they are, in four parts. `npm run docs` builds it into site/.vitepress/dist.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const require = createRequire(import.meta.url);
const docs = fileURLToPath(new URL("../../docs", import.meta.url));

/** Pages whose place says what to read first; the others follow by title. */
const ORDER: Readonly<Record<string, readonly string[]>> = {
  guide: [
    ...["quickstart", "library", "tools", "embeddings", "images", "adapters", "speculation", "batches"],
    ...[
      "mounting",
      "agents",
      "browser",
      "dashboard",
      "operations",
      "cluster",
      "platforms",
      "webgpu",
      "troubleshooting",
    ],
  ],
  reference: ["server-api", "api", "configuration", "sampling", "errors", "models", "formats"],
  internals: ["architecture", "scheduler", "kv-cache", "attention-plan", "kernels", "cuda", "glossary"],
  laboratory: [
    "benchmarks",
    "package",
    "serving-under-load",
    "cluster",
    "platforms",
    "images",
    "formats",
    "kernel-measurements",
    "gpu-measurements",
  ],
};

function titleOf(folder: string, page: string): string {
  return /^# (.+)$/m.exec(readFileSync(join(docs, folder, `${page}.md`), "utf8"))?.[1] ?? page;
}

function pagesOf(folder: string): { text: string; link: string }[] {
  const order = ORDER[folder] ?? [];
  const rank = (page: string) => (order.includes(page) ? order.indexOf(page) : order.length);
  return readdirSync(join(docs, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => basename(name, ".md"))
    .map((page) => ({ page, text: titleOf(folder, page), link: `/${folder}/${page}` }))
    .sort((a, b) => rank(a.page) - rank(b.page) || a.text.localeCompare(b.text))
    .map(({ text, link }) => ({ text, link }));
}

const PARTS = [
  { folder: "guide", text: "Guide" },
  { folder: "reference", text: "Reference" },
  { folder: "internals", text: "Internals" },
  { folder: "laboratory", text: "Laboratory" },
];

export default defineConfig({
  title: "Pagoda",
  description:
    "Run language models in Node: an inference engine and an OpenAI-compatible server, written in TypeScript.",
  lang: "en",
  srcDir: docs,
  cleanUrls: true,
  // The pages lie beside this package, not below it, and so would not find its Vue.
  vite: {
    resolve: {
      alias: [
        { find: "vue/server-renderer", replacement: require.resolve("vue/server-renderer") },
        { find: /^vue$/, replacement: require.resolve("vue/dist/vue.runtime.esm-bundler.js") },
      ],
    },
  },
  // Files of the repository beside docs/, which a site does not have.
  ignoreDeadLinks: [
    /\.\.\/\.\.\/(README|CONTRIBUTING|CHANGELOG|SECURITY|examples|src|bench|scripts|deploy|models|test|native)/,
    /chat-in-a-tab/,
  ],
  // The front page has no landmark of its own.
  transformHtml: (html) => html.replace('class="VPContent is-home"', 'role="main" class="VPContent is-home"'),
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    // The empty corner of a table is no header.
    config: (md) => {
      md.core.ruler.push("empty-corner", ({ tokens }) => {
        for (const [i, token] of tokens.entries()) {
          if (token.type !== "th_open" || tokens[i + 1]?.content !== "") continue;
          token.tag = "td";
          tokens[i + 2]!.tag = "td";
        }
      });
    },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: PARTS.map(({ folder, text }) => ({ text, link: pagesOf(folder)[0]!.link, activeMatch: `/${folder}/` })),
    sidebar: Object.fromEntries(PARTS.map(({ folder, text }) => [`/${folder}/`, [{ text, items: pagesOf(folder) }]])),
  },
});
