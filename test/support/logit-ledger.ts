// Remembers the logits that followed each token sequence and fails when the same sequence ever gives other bits.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { LogitsHook } from "../../src/sampler/sampler.js";

export class LogitLedger {
  readonly #digests = new Map<string, string>();
  numChecked = 0;
  /** Sequences seen more than once: without repeats the ledger has proved nothing. */
  numRepeated = 0;

  readonly hook: LogitsHook = (logits, { tokens }) => {
    const key = tokens.join(",");
    const digest = createHash("sha1")
      .update(new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength))
      .digest("hex");
    const before = this.#digests.get(key);
    this.numChecked++;
    if (before === undefined) this.#digests.set(key, digest);
    else {
      this.numRepeated++;
      assert.equal(digest, before, `other logits after the same ${tokens.length} tokens`);
    }
  };
}
