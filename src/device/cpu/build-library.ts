// Runs the script that compiles the native library, in a process of its own. Its words go to our standard error.

import { spawn } from "node:child_process";
import { fstatSync } from "node:fs";

/** The path of what the script built; empty when it could not. */
export function buildLibrary(script: string): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", isShareable(2) ? 2 : "pipe"] });
    let path = "";
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      path += text;
    });
    child.stderr?.on("data", (words: Buffer) => process.stderr.write(words));
    child.on("error", () => resolve(""));
    child.on("close", (code) => resolve(code === 0 ? path.trim() : ""));
  });
}

/** Begins a build that goes on when this process ends, at the lowest priority. Nothing of it is heard here. */
export function buildBehind(script: string): void {
  const child = spawn(process.execPath, [script, "--background"], {
    detached: true,
    stdio: "ignore",
    windowsHide: true,
  });
  child.on("error", () => undefined); // no more processes to be had: this one runs without
  child.unref();
}

/**
 * Files and terminals. To begin a process with a pipe of ours clears the pipe's O_NONBLOCK, for us too: from then on a log whose reader
 * takes nothing would hold up the whole process.
 */
function isShareable(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    return !stat.isFIFO() && !stat.isSocket();
  } catch {
    return false; // closed
  }
}
