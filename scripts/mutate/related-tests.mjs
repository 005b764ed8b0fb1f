// Which test files reach a source file by imports, and which of them are likely to be about it.

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

/** Test files that reach `file` by imports: those first whose path has most words of its own, of these the nearest. */
export function relatedTests(file, importers) {
  const seen = new Set([file]);
  const tests = [];
  let layer = [file];
  while (layer.length > 0) {
    const next = [];
    for (const importer of layer.flatMap((each) => importers.get(each) ?? [])) {
      if (seen.has(importer)) continue;
      seen.add(importer);
      if (importer.endsWith(".test.js")) tests.push(importer);
      next.push(importer);
    }
    layer = next;
  }
  const words = wordsOf(file);
  const numShared = (test) => [...wordsOf(test)].filter((word) => words.has(word)).length;
  return tests.sort((a, b) => numShared(b) - numShared(a)); // a stable sort: otherwise from near to far
}

/** Of "dist/src/server/log-sink.js": server, log, sink. */
function wordsOf(path) {
  return new Set(path.split(/[\\/.-]/).filter((word) => !["dist", "src", "test", "js"].includes(word)));
}
