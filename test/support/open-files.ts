// Which files this process holds open, for tests of what closes them.

import { existsSync, readdirSync, readlinkSync } from "node:fs";

/** None where they cannot be listed. */
export function openFilesUnder(folder: string): string[] {
  const all = "/proc/self/fd";
  return (existsSync(all) ? readdirSync(all) : []).flatMap((fd) => {
    try {
      const file = readlinkSync(`${all}/${fd}`);
      return file.startsWith(folder) ? [file] : [];
    } catch {
      return []; // that of the listing itself
    }
  });
}
