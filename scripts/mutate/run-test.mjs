// One compiled test file in a process group of its own, ended with all that it started at its first failure or when it hangs: that
// it hangs is told from its processor time, since on a busy machine the clock says nothing.

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Of a test without processor time for so long nothing more is to come. */
const IDLE_SECONDS = 40;

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
  const watch = setInterval(() => {
    const now = secondsOfGroup(child.pid) ?? seconds + 1;
    idle = now > seconds + 0.02 ? 0 : idle + 1;
    seconds = now;
    hangs = idle > IDLE_SECONDS || seconds > 10 + 5 * expectedSeconds;
    if (hangs) end();
  }, 1000);
  child.stdout.setEncoding("utf8").on("data", (text) => {
    if (!/^ *not ok (?!.*# TODO)/m.test(text)) return;
    isFailed = true;
    end();
  });
  return new Promise((resolve) => {
    child.on("exit", (code) => {
      clearInterval(watch);
      end();
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
