// One build at a time in a folder, by a file that names its owner: process id and the time that process began, since ids are used
// again. A lock whose owner is gone is taken over at once, so an interrupted build holds up nobody.
import { spawnSync } from "node:child_process";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";

/** Runs `work` while this process holds the lock; onWait(pid) is called once if another one has it. */
export async function withLock(path, work, onWait = () => undefined) {
  const own = `${process.pid} ${startOf(process.pid)}`;
  let waited = false;
  while (!tryLock(path, own)) {
    const owner = ownerOf(path);
    if (owner === null) continue; // given back meanwhile
    if (isAlive(owner)) {
      if (!waited) onWait(owner.pid);
      waited = true;
      await new Promise((resolve) => setTimeout(resolve, 100));
    } else takeAway(path, owner);
  }
  const giveBack = () => rmSync(path, { force: true });
  process.once("exit", giveBack);
  try {
    return await work();
  } finally {
    process.off("exit", giveBack);
    giveBack();
  }
}

/** A lock appears whole or not at all: it is written under another name and linked. */
function tryLock(path, own) {
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, own);
  try {
    linkSync(mine, path);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(mine, { force: true });
  }
}

function ownerOf(path) {
  try {
    const text = readFileSync(path, "utf8");
    const [, pid, start] = text.match(/^(\d+) (.*)$/s);
    return { pid: Number(pid), start, text };
  } catch {
    return null;
  }
}

/** Only if it is still the dead owner's: somebody else may have been quicker. */
function takeAway(path, owner) {
  if (ownerOf(path)?.text === owner.text) rmSync(path, { force: true });
}

function isAlive({ pid, start }) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== "EPERM") return false;
  }
  const now = startOf(pid);
  return now === "" || start === "" || now === start;
}

/** When a process began, in the system's own words; empty where that cannot be asked. */
export function startOf(pid) {
  if (process.platform === "linux") {
    try {
      // Field 22; the second may hold spaces and brackets.
      return readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ")[19];
    } catch {
      return "";
    }
  }
  if (process.platform === "win32") return "";
  return spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).stdout?.trim() ?? "";
}
