// Folders of small files, for tests of what reads them; they go when the tests of the file have ended.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

/** A function that makes a folder of files by name: texts as they are, all else as JSON. */
export function folderMaker(): (files: Record<string, unknown>) => string {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-folders-"));
  after(() => rmSync(dir, { recursive: true }));
  let made = 0;
  return (files) => {
    const path = join(dir, `model-${made++}`);
    mkdirSync(path);
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(join(path, name, ".."), { recursive: true });
      writeFileSync(join(path, name), typeof content === "string" ? content : JSON.stringify(content));
    }
    return path;
  };
}
