// Which addresses are in the public network: none that means this machine, its neighbours, or what only looks like an address elsewhere.

import { BlockList, isIP } from "node:net";

const V4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];

/** The one block of IPv6 that is routed, and what lies in it without being anybody's. */
const ROUTED_V6 = "2000::/3";
const V6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];

const privateOnes = new BlockList();
const routed = new BlockList();
for (const [list, blocks, family] of [
  [privateOnes, V4, "ipv4"],
  [privateOnes, V6, "ipv6"],
  [routed, [ROUTED_V6], "ipv6"],
] as const) {
  for (const block of blocks) {
    const [net, prefix] = block.split("/") as [string, string];
    list.addSubnet(net, Number(prefix), family);
  }
}

export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !privateOnes.check(address, "ipv4");
  return family === 6 && routed.check(address, "ipv6") && !privateOnes.check(address, "ipv6");
}
