// Which test files reach a source file by imports, and how far they are from it.

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

/** Map from each test file that reaches `file` by imports to how many imports away it is. */
export function distancesTo(file, importers) {
  const distances = new Map();
  const seen = new Set([file]);
  let layer = [file];
  for (let distance = 1; layer.length > 0; distance++) {
    const next = [];
    for (const importer of layer.flatMap((each) => importers.get(each) ?? [])) {
      if (seen.has(importer)) continue;
      seen.add(importer);
      if (importer.endsWith(".test.js")) distances.set(importer, distance);
      next.push(importer);
    }
    layer = next;
  }
  return distances;
}
