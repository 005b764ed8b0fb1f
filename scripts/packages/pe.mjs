// What a library of Windows (PE, 64 bits) gives and asks for: its export and import tables.

const MACHINES = { 34404: "x64", 43620: "arm64" };

/** See readBinary in binary.mjs. */
export function readPe(bytes) {
  const header = bytes.readUInt32LE(60) + 4;
  const optional = header + 20;
  const places = sectionsOf(bytes, optional + bytes.readUInt16LE(header + 16), bytes.readUInt16LE(header + 2));
  /** Where an address relative to the loaded image lies in the file. */
  const fileOffset = (address) => {
    const section = places.find(({ start, end }) => address >= start && address < end);
    return address - section.start + section.offset;
  };
  const table = (index) => fileOffset(bytes.readUInt32LE(optional + 112 + 8 * index));
  const text = (address) => {
    const at = fileOffset(address);
    return bytes.toString("latin1", at, bytes.indexOf(0, at));
  };
  return {
    platform: "win32",
    arch: MACHINES[bytes.readUInt16LE(header)],
    minimumSystem: [bytes.readUInt16LE(optional + 48), bytes.readUInt16LE(optional + 50)],
    exports: exportsOf(bytes, table(0), fileOffset, text),
    ...importsOf(bytes, table(1), fileOffset, text),
  };
}

function sectionsOf(bytes, from, count) {
  return Array.from({ length: count }, (_, i) => {
    const start = bytes.readUInt32LE(from + 40 * i + 12);
    const size = Math.max(bytes.readUInt32LE(from + 40 * i + 8), bytes.readUInt32LE(from + 40 * i + 16));
    return { start, end: start + size, offset: bytes.readUInt32LE(from + 40 * i + 20) };
  });
}

function exportsOf(bytes, at, fileOffset, text) {
  const exports = new Map();
  const [functions, names, ordinals] = [28, 32, 36].map((field) => fileOffset(bytes.readUInt32LE(at + field)));
  for (let i = 0; i < bytes.readUInt32LE(at + 24); i++) {
    const ordinal = bytes.readUInt16LE(ordinals + 2 * i);
    exports.set(text(bytes.readUInt32LE(names + 4 * i)), fileOffset(bytes.readUInt32LE(functions + 4 * ordinal)));
  }
  return exports;
}

function importsOf(bytes, table, fileOffset, text) {
  const imports = [];
  const libraries = [];
  for (let at = table; bytes.readUInt32LE(at + 12) !== 0; at += 20) {
    const library = text(bytes.readUInt32LE(at + 12));
    libraries.push(library);
    for (let entry = fileOffset(bytes.readUInt32LE(at)); ; entry += 8) {
      const name = bytes.readBigUInt64LE(entry);
      if (name === 0n) break;
      const isNumber = name >> 63n === 1n;
      imports.push(`${library}:${isNumber ? name & 0xffffn : text(Number(name) + 2)}`);
    }
  }
  return { imports, libraries };
}
