// One compiled test file in a process of its own, ended with all that it started at its first failure or when it takes far too long.

import { spawn } from "node:child_process";

/** `status` is 0 when every test passed. */
export function runTest(root, test, { expectedSeconds = 600, env = {} } = {}) {
  const started = performance.now();
  const child = spawn(process.execPath, ["--expose-gc", "--test-reporter=tap", test], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "ignore"],
    detached: true, // a group of its own, with the servers and browsers it starts
  });
  let isOverdue = false;
  let isFailed = false;
  const end = () => {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {} // nothing of it is left
  };
  // Counted second by second: time for which the whole machine was held is not the test's.
  let secondsLeft = 30 + 6 * expectedSeconds;
  const clock = setInterval(() => {
    if (--secondsLeft > 0) return;
    isOverdue = true;
    end();
  }, 1000);
  child.stdout.setEncoding("utf8").on("data", (text) => {
    if (!/^ *not ok (?!.*# TODO)/m.test(text)) return;
    isFailed = true;
    end();
  });
  return new Promise((resolve) => {
    child.on("exit", (code) => {
      clearInterval(clock);
      end();
      const seconds = (performance.now() - started) / 1000;
      resolve({ status: isFailed ? 1 : (code ?? 1), isOverdue, seconds });
    });
  });
}
