// One compiled test file in a process group of its own, ended with all that it started at its first failure or when it hangs: that
// it hangs is told from its processor time, since on a busy machine the clock says nothing.

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Of a test that for so long used less than a fiftieth of a processor nothing more is to come. */
const IDLE_SECONDS = 40;
/** How often its processor time is read. */
const WATCH_MS = 200;

/** Ends of those that run, for when this process ends before them. */
const running = new Set();
process.on("exit", () => {
  for (const end of running) end();
});

/** `status` is 0 when every test passed; `seconds` are of processor time. */
export function runTest(root, test, { expectedSeconds = 300, env = {} } = {}) {
  const child = spawn(process.execPath, ["--expose-gc", "--test-reporter=tap", test], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  let hangs = false;
  let isFailed = false;
  let seconds = 0;
  let idle = 0;
  const end = () => {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {} // nothing of it is left
  };
  running.add(end);
  const watch = setInterval(() => {
    const now = secondsOfGroup(child.pid) ?? seconds + WATCH_MS / 1000;
    idle = Math.max(0, idle + WATCH_MS / 1000 - 50 * (now - seconds));
    seconds = now;
    hangs = idle > IDLE_SECONDS || seconds > 5 + 2 * expectedSeconds;
    if (hangs) end();
  }, WATCH_MS);
  child.stdout.setEncoding("utf8").on("data", (text) => {
    if (!/^ *not ok (?!.*# TODO)/m.test(text)) return;
    isFailed = true;
    end();
  });
  return new Promise((resolve) => {
    child.on("exit", (code) => {
      clearInterval(watch);
      end();
      running.delete(end);
      resolve({ status: isFailed ? 1 : (code ?? 1), hangs, seconds });
    });
  });
}

/** Processor time of a process group and of what it has waited for; null where there is no /proc. */
function secondsOfGroup(group) {
  let ticks = null;
  for (const name of existsSync("/proc/self/stat") ? readdirSync("/proc") : []) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const text = readFileSync(`/proc/${name}/stat`, "utf8");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" "); // from the third field of proc(5) on
      if (Number(fields[2]) !== group) continue;
      for (let i = 11; i < 15; i++) ticks += Number(fields[i]);
    } catch {} // it ended meanwhile
  }
  return ticks === null ? null : ticks / 100;
}
