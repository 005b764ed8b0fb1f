// Reads a library of any system without that system's tools.
import { readFileSync } from "node:fs";
import { readElf } from "./elf.mjs";
import { readMachO } from "./macho.mjs";
import { readPe } from "./pe.mjs";

/**
 * { platform, arch, exports, imports, libraries } and, where the format has it, { minimumSystem: [major, minor], isSigned,
 * isTwoLevel }.
 * exports: name -> where its code lies in the file; imports: names, in ELF with the version that is asked for ("exp@GLIBC_2.29").
 */
export function readBinary(file) {
  const bytes = readFileSync(file);
  return { bytes, ...readerOf(bytes)(bytes) };
}

function readerOf(bytes) {
  const magic = bytes.readUInt32BE(0);
  if (magic === 0x7f454c46) return readElf;
  if (magic === 0xcffaedfe) return readMachO;
  if (magic >>> 16 === 0x4d5a) return readPe;
  throw new Error(`no library of a known format: it begins with ${magic.toString(16)}`);
}
