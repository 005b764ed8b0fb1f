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

/** Test files that reach `file` by imports, the nearest first; of those at one distance, those whose path is most like its own. */
export function relatedTests(file, importers) {
  const seen = new Set([file]);
  const tests = [];
  let layer = [file];
  while (layer.length > 0) {
    const next = [];
    for (const importer of layer.flatMap((each) => importers.get(each) ?? [])) {
      if (seen.has(importer)) continue;
      seen.add(importer);
      next.push(importer);
    }
    const found = next.filter((name) => name.endsWith(".test.js"));
    tests.push(...found.sort((a, b) => likeness(b, file) - likeness(a, file) || (a < b ? -1 : 1)));
    layer = next;
  }
  return tests;
}

/** How many characters two paths have in common at their beginnings. */
function likeness(a, b) {
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  return i;
}
