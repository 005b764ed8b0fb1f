// What every test file runs, noted once and kept in build/mutate/. A record is made again when its test changed, or a source file that
// is to be mutated; what else changed does not count, since a new build would otherwise cost a run of the whole suite.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { coverageOf, isIn } from "./coverage.mjs";
import { hashOf } from "./hash.mjs";

const FOLDER = "build/mutate";

export class Records {
  /** Map from a test file to what `coverageOf` says of it. */
  #known = new Map();

  /** Those of `tests` that have to be run to know; `files` are the source files to be asked for, `isFresh` takes no kept record. */
  missing(tests, files, isFresh) {
    const hashes = files.map((file) => [file, hashOf(readFileSync(file, "utf8"))]);
    return tests.filter((test) => {
      const path = pathOf(".", test);
      if (isFresh || !existsSync(path)) return true;
      const record = JSON.parse(readFileSync(path, "utf8"));
      if (hashes.some(([file, hash]) => record.ran[file] !== undefined && record.ran[file].hash !== hash)) return true;
      this.#known.set(test, record);
      return false;
    });
  }

  /** Runs one of them. A test that fails unchanged can catch nothing; it is tried again next time. */
  async note(root, test) {
    const record = await coverageOf(root, test);
    this.#known.set(test, record);
    mkdirSync(FOLDER, { recursive: true });
    if (record.isPassing) writeFileSync(pathOf(root, test), JSON.stringify(record));
    return record.isPassing;
  }

  /** The passing tests that run the character at `offset`: those first whose path has most words of the file's own, then the cheapest. */
  testsAt(file, offset) {
    const found = [];
    for (const [test, { seconds, isPassing, ran }] of this.#known) {
      if (isPassing && isIn(ran[file]?.spans ?? [], offset)) found.push({ test, seconds, rank: numShared(file, test) });
    }
    return found.sort((a, b) => b.rank - a.rank || a.seconds - b.seconds);
  }
}

function pathOf(root, test) {
  return join(FOLDER, `${hashOf(test + readFileSync(join(root, test), "utf8"))}.json`);
}

/** Of "dist/src/server/http/log-sink.js" and "dist/test/server/load.test.js": 1, for server. */
function numShared(file, test) {
  const words = new Set(wordsOf(file));
  return wordsOf(test).filter((word) => words.has(word)).length;
}

function wordsOf(path) {
  return path.split(/[\\/.-]/).filter((word) => !["dist", "src", "test", "js"].includes(word));
}
