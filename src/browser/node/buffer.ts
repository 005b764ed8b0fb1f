// As much of Node's Buffer as the formats and tokenizers use, and setImmediate, as globals.

class BrowserBuffer extends Uint8Array {
  readonly #view = new DataView(this.buffer, this.byteOffset);

  override toString(encoding = "utf8", from = 0, to = this.length): string {
    return new TextDecoder(encoding).decode(this.subarray(from, to));
  }

  readUInt8(at = 0): number {
    return this[at]!;
  }

  readInt8(at = 0): number {
    return this.#view.getInt8(at);
  }

  readUInt16LE(at = 0): number {
    return this.#view.getUint16(at, true);
  }

  readInt16LE(at = 0): number {
    return this.#view.getInt16(at, true);
  }

  readUInt32LE(at = 0): number {
    return this.#view.getUint32(at, true);
  }

  readInt32LE(at = 0): number {
    return this.#view.getInt32(at, true);
  }

  readFloatLE(at = 0): number {
    return this.#view.getFloat32(at, true);
  }

  readDoubleLE(at = 0): number {
    return this.#view.getFloat64(at, true);
  }

  readBigUInt64LE(at = 0): bigint {
    return this.#view.getBigUint64(at, true);
  }

  readBigInt64LE(at = 0): bigint {
    return this.#view.getBigInt64(at, true);
  }

  readUIntBE(at: number, bytes: number): number {
    let value = 0;
    for (let i = 0; i < bytes; i++) value = value * 256 + this[at + i]!;
    return value;
  }
}

const statics = {
  from(source: string | ArrayLike<number>, encoding = "utf8"): BrowserBuffer {
    if (typeof source !== "string") return new BrowserBuffer(source);
    if (encoding === "utf8") return new BrowserBuffer(new TextEncoder().encode(source));
    return new BrowserBuffer(Uint8Array.from(atob(source), (char) => char.charCodeAt(0))); // base64
  },

  alloc(length: number): BrowserBuffer {
    return new BrowserBuffer(length);
  },

  concat(parts: readonly Uint8Array[]): BrowserBuffer {
    const whole = new BrowserBuffer(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  },
};

/** A message to oneself comes after those that are waiting, without the delay of a timer. */
const channel = new MessageChannel();
const waiting: (() => void)[] = [];
Object.assign(channel.port1, { onmessage: () => waiting.shift()?.() });
function setImmediate(run: () => void): void {
  waiting.push(run);
  channel.port2.postMessage(0);
}

Object.assign(globalThis, { Buffer: Object.assign(BrowserBuffer, statics), setImmediate });
