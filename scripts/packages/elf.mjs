// What a shared library of Linux (ELF, 64 bits, little-endian) gives and asks for: its dynamic symbols, their versions, its libraries.

const MACHINES = { 62: "x64", 183: "arm64" };
const DYNAMIC = 6;
const DYNSYM = 11;
const VERSION_NEEDS = 0x6ffffffe;
const VERSIONS = 0x6fffffff;
const NEEDED = 1n;
const LOCAL = 0;

/** See readBinary in binary.mjs. */
export function readElf(bytes) {
  const sections = sectionsOf(bytes);
  const ofType = (type) => sections.find((section) => section.type === type);
  const dynamic = ofType(DYNAMIC);
  const strings = sections[dynamic.link];
  const text = (at) => textAt(bytes, strings.offset + at);
  const versions = versionNames(bytes, ofType(VERSION_NEEDS), text);
  const versionOf = ofType(VERSIONS);
  const exports = new Map();
  const imports = [];
  const { offset, size } = ofType(DYNSYM);
  for (let i = 1; i < size / 24; i++) {
    const at = offset + 24 * i;
    if (bytes[at + 4] >> 4 === LOCAL) continue;
    const name = text(bytes.readUInt32LE(at));
    const section = sections[bytes.readUInt16LE(at + 6)];
    if (section.type !== 0) exports.set(name, Number(bytes.readBigUInt64LE(at + 8)) - section.address + section.offset);
    else {
      const version = versionOf && versions.get(bytes.readUInt16LE(versionOf.offset + 2 * i) & 0x7fff);
      imports.push(version === undefined ? name : `${name}@${version}`);
    }
  }
  const libraries = [];
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.size; at += 16)
    if (bytes.readBigUInt64LE(at) === NEEDED) libraries.push(text(Number(bytes.readBigUInt64LE(at + 8))));
  return { platform: "linux", arch: MACHINES[bytes.readUInt16LE(18)], exports, imports, libraries };
}

function sectionsOf(bytes) {
  const table = Number(bytes.readBigUInt64LE(40));
  return Array.from({ length: bytes.readUInt16LE(60) }, (_, i) => {
    const at = table + 64 * i;
    return {
      type: bytes.readUInt32LE(at + 4),
      address: Number(bytes.readBigUInt64LE(at + 16)),
      offset: Number(bytes.readBigUInt64LE(at + 24)),
      size: Number(bytes.readBigUInt64LE(at + 32)),
      link: bytes.readUInt32LE(at + 40),
    };
  });
}

/** number -> "GLIBC_2.17": for every library its versions, as linked lists. */
function versionNames(bytes, section, text) {
  const names = new Map();
  if (section === undefined) return names;
  for (let need = section.offset, isLast = false; !isLast; ) {
    let one = need + bytes.readUInt32LE(need + 8);
    for (let left = bytes.readUInt16LE(need + 2); left > 0; left--) {
      names.set(bytes.readUInt16LE(one + 6), text(bytes.readUInt32LE(one + 8)));
      one += bytes.readUInt32LE(one + 12);
    }
    isLast = bytes.readUInt32LE(need + 12) === 0;
    need += bytes.readUInt32LE(need + 12);
  }
  return names;
}

function textAt(bytes, at) {
  return bytes.toString("latin1", at, bytes.indexOf(0, at));
}
