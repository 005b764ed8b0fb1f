// A cache of one full group, and requests taken through their prefill in it.
import assert from "node:assert/strict";
import { CacheManager } from "../../src/cache/cache-manager.js";
import type { Request } from "../../src/core/request.js";

export function makeCache(pages: number, pageSize = 4, prefixCaching = true): CacheManager {
  return new CacheManager({ pageSize, prefixCaching, groups: [{ kind: "full", numPages: pages + 1 }] });
}

/** Takes the request through a whole prefill, as if a step had computed everything it lacks. */
export function prefill(cache: CacheManager, request: Request): Request {
  cache.attach(request);
  assert.ok(cache.tryReserve(request, request.numTokens));
  request.numComputed = request.numTokens;
  cache.publish(request);
  return request;
}

export function pagesOf(request: Request): number[] {
  return [...request.tables[0]!.pages.slice(0, request.tables[0]!.numPages)];
}
