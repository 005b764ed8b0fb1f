// Which test files reach a source file by imports, the nearest first.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const IMPORT = /\bfrom "(\.[^"]+)"|\bimport\(?\s*"(\.[^"]+)"|new URL\("(\.[^"]+\.js)"/g;

/** Map from a compiled file to the files that import it or start it as a thread. */
export function importersOf(root, folders) {
  const importers = new Map();
  for (const folder of folders) {
    for (const name of readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })) {
      if (!name.endsWith(".js")) continue;
      const file = join(folder, name);
      for (const match of readFileSync(join(root, file), "utf8").matchAll(IMPORT)) {
        const target = normalize(join(dirname(file), match[1] ?? match[2] ?? match[3]));
        importers.set(target, [...(importers.get(target) ?? []), file]);
      }
    }
  }
  return importers;
}

/** Breadth first from the file upwards; tests that start the command line or a server reach everything and come last. */
export function relatedTests(file, importers) {
  const seen = new Set([file]);
  const tests = [];
  let layer = [file];
  while (layer.length > 0) {
    const next = [];
    for (const each of layer) {
      for (const importer of importers.get(each) ?? []) {
        if (seen.has(importer)) continue;
        seen.add(importer);
        if (importer.endsWith(".test.js")) tests.push(importer);
        next.push(importer);
      }
    }
    layer = next;
  }
  return tests;
}
