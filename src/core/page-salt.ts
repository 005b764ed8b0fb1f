// What the pages of a request depend on beside its tokens: who may share them (the caller's salt), and the adapter that computed them. Both
// stand in one string, the root of every page's identity, so that directory, disk, transfers and routers tell adapters apart as they do tenants.

/** No salt of a caller may contain it: none can pass for another salt with an adapter. */
export const SALT_END = "\0";

/** `adapter`: the identity of its numbers; "": none. */
export function pageSalt(salt: string, adapter: string): string {
  return adapter === "" ? salt : `${salt}${SALT_END}${adapter}`;
}
