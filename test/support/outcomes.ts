// All exchanges held, one after the other.

import { outcomeOf } from "./exchange.js";
import { CONVERSATIONS } from "./exchanges.js";
import { ToldServer } from "./told-server.js";

export const OUTCOMES = "test/fixtures/exchanges/outcomes.json";

const KNOWS = {
  stats: { running: 1, waiting: 2 },
  cache: {
    pageSize: 16,
    groups: [],
    nodes: [{ id: 1, tokens: [72, 105] }],
    requests: [{ id: "chatcmpl-x", pages: [1] }],
  },
};

/** By the server's name and the exchange's title. */
export async function outcomes(): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const [name, [options, exchanges, facts = {}]] of Object.entries(CONVERSATIONS)) {
    await using told = await ToldServer.start(options, facts);
    told.knows = KNOWS;
    let last: unknown = null;
    for (const exchange of exchanges) {
      const [reply, outcome] = await outcomeOf(told, exchange, last);
      found[`${name}: ${exchange.title}`] = outcome;
      last = reply;
    }
  }
  return found;
}
