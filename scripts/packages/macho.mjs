// What a library of macOS (Mach-O, 64 bits) gives and asks for: its load commands, the trie of its exports, its symbol table.

const MACHINES = { 16777223: "x64", 16777228: "arm64" };
const TWO_LEVEL = 0x80;
const SYMTAB = 0x2;
const LIBRARY = 0xc;
const WEAK_LIBRARY = 0x80000018;
const SIGNATURE = 0x1d;
const OLD_MINIMUM = 0x24;
const BUILD_VERSION = 0x32;
const INFO = [0x22, 0x80000022];
const EXPORTS = 0x80000033;

/** See readBinary in binary.mjs. Names are without the underscore that C puts before them here. */
export function readMachO(bytes) {
  const isTwoLevel = (bytes.readUInt32LE(24) & TWO_LEVEL) !== 0;
  const found = { platform: "darwin", arch: MACHINES[bytes.readUInt32LE(4)], isTwoLevel, isSigned: false };
  const exports = new Map();
  const imports = [];
  const libraries = [];
  let at = 32;
  for (let left = bytes.readUInt32LE(16); left > 0; left--) {
    const word = (offset) => bytes.readUInt32LE(at + offset);
    const kind = word(0);
    if (kind === LIBRARY || kind === WEAK_LIBRARY) libraries.push(textAt(bytes, at + word(8)));
    else if (kind === SIGNATURE) found.isSigned = true;
    else if (kind === BUILD_VERSION) found.minimumSystem = versionOf(word(12));
    else if (kind === OLD_MINIMUM) found.minimumSystem = versionOf(word(8));
    else if (kind === SYMTAB) imports.push(...undefinedSymbols(bytes, word(8), word(12), word(16)));
    else if (kind === EXPORTS && word(12) > 0) walkTrie(bytes, word(8), word(8), "", exports);
    else if (INFO.includes(kind) && word(44) > 0) walkTrie(bytes, word(40), word(40), "", exports);
    at += word(4);
  }
  return { ...found, exports, imports, libraries };
}

const versionOf = (word) => [word >>> 16, (word >>> 8) & 255];
const plain = (name) => name.replace(/^_/, "");

function undefinedSymbols(bytes, from, count, strings) {
  const names = [];
  for (let at = from; at < from + 16 * count; at += 16) {
    const isDebug = (bytes[at + 4] & 0xe0) !== 0;
    const isDefined = (bytes[at + 4] & 0x0e) !== 0;
    if (!isDebug && !isDefined) names.push(plain(textAt(bytes, strings + bytes.readUInt32LE(at))));
  }
  return names;
}

/** Every node: the size of what it exports, that, and its children, each the next letters and where it lies in the trie. */
function walkTrie(bytes, start, node, name, exports) {
  let [size, at] = uleb(bytes, node);
  if (size > 0) {
    const [, flagsEnd] = uleb(bytes, at);
    // Relative to the image, whose first segment begins with the file.
    exports.set(plain(name), uleb(bytes, flagsEnd)[0]);
  }
  at += size;
  for (let left = bytes[at++]; left > 0; left--) {
    const letters = textAt(bytes, at);
    const [child, end] = uleb(bytes, at + letters.length + 1);
    walkTrie(bytes, start, start + child, name + letters, exports);
    at = end;
  }
}

/** [a number in groups of seven bits, where it ends]. */
function uleb(bytes, at) {
  let value = 0;
  for (let shift = 1; ; shift *= 128) {
    const byte = bytes[at++];
    value += (byte & 127) * shift;
    if (byte < 128) return [value, at];
  }
}

function textAt(bytes, at) {
  return bytes.toString("latin1", at, bytes.indexOf(0, at));
}
