// A machine that is slow and busy, made on one that is not: threads are held up between turns of their event loops, often for a little, now
// and then for long, without using a processor. What holds only when the right one of two things comes first does not hold here.
//   NODE_OPTIONS="--import ./scripts/slow-loop.mjs" SLOW_LOOP=main node scripts/run-tests.mjs server
// SLOW_LOOP: main (readers fall behind the engine), threads (the engine behind them) or all; SLOW_LOOP_MS: the usual longest, 30;
// SLOW_LOOP_SEED: other moments.
import { isMainThread, threadId } from "node:worker_threads";

const { SLOW_LOOP = "main", SLOW_LOOP_MS = "30", SLOW_LOOP_SEED = "1" } = process.env;
const USUAL_MS = Number(SLOW_LOOP_MS);
const SELDOM = 0.02;
const SELDOM_FACTOR = 15;

let state = (Number(SLOW_LOOP_SEED) * 7919 + threadId * 104_729 + process.pid) >>> 0;

/** 0 to 1. */
function random() {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

const never = new Int32Array(new SharedArrayBuffer(4));

function holdUp() {
  const draw = random();
  const ms = draw < SELDOM ? SELDOM_FACTOR * USUAL_MS : draw < 0.5 ? 0 : random() * USUAL_MS;
  if (ms > 0) Atomics.wait(never, 0, 0, ms);
}

if (SLOW_LOOP === "all" || (SLOW_LOOP === "main") === isMainThread) {
  const { setImmediate, setTimeout } = globalThis;
  const again = () => {
    holdUp();
    setTimeout(again, 1 + random() * USUAL_MS).unref();
  };
  setTimeout(again, 1).unref();
  // Also between a turn's own pieces, which are then parted by what comes meanwhile.
  const heldUp = (callback, ...args) =>
    setImmediate(() => {
      if (random() < 0.3) holdUp();
      callback(...args);
    });
  globalThis.setImmediate = Object.assign(heldUp, setImmediate);
}
