// Calls of a replica that do not end by themselves: what must be seen while they run is seen, however fast the engine and slow the network.

import { PagodaError } from "../../src/core/errors.js";
import type { RelayEngine } from "../../src/engine/client/relay.js";

/** Of the tiny model's tokens, which are bytes, some have no text before the next. */
const NUM_TOLD = 8;

/** From now on a call of this engine says the first of its answer and why it was ended, and nothing between. */
export function holdRelays(engine: RelayEngine): void {
  const relay = engine.relay.bind(engine);
  engine.relay = (call, deliver) => {
    let numTold = 0;
    return relay(call, (output, isLast) => {
      if (output instanceof PagodaError || numTold++ < NUM_TOLD) deliver(output, isLast);
    });
  };
}
