// A form with a file in it (multipart/form-data), read as it comes: short fields are kept, the file's bytes are handed on. Forms that are
// no such thing are refused by the place where they end.

const MOST_HEADERS = 16 * 1024;
const MOST_FIELD = 64 * 1024;
const MOST_FIELDS = 16;
const END_OF_HEADERS = Buffer.from("\r\n\r\n");

export interface FilePart {
  readonly field: string;
  readonly name: string;
}

export interface Form {
  readonly fields: ReadonlyMap<string, string>;
  /** The file, if there was one. */
  readonly file: FilePart | null;
}

/** null: it is no such form. */
export function boundaryOf(contentType: string | undefined): string | null {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;.*?boundary=(?:"([^"]{1,200})"|([^\s;,]{1,200}))/i.exec(contentType ?? "") ?? [];
  return quoted ?? plain ?? null;
}

/** Hands the bytes of the form's one file to `write`, in order. Throws an Error that says what is wrong with the form. */
export async function readForm(
  pieces: AsyncIterable<Uint8Array>,
  boundary: string,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<Form> {
  const fields = new Map<string, string>();
  let file: FilePart | null = null;
  const form = new Delimited(pieces, Buffer.from(`\r\n--${boundary}`));
  await form.skip();
  while (await form.begins()) {
    const { field, name } = dispositionOf(await form.headers());
    if (name === null) {
      const parts: Uint8Array[] = [];
      let size = 0;
      await form.part(async (bytes) => {
        size += bytes.length;
        if (size > MOST_FIELD) throw new Error(`its field ${field} is longer than ${MOST_FIELD} bytes`);
        parts.push(bytes);
      });
      if (fields.size === MOST_FIELDS) throw new Error(`it has more than ${MOST_FIELDS} fields`);
      fields.set(field, Buffer.concat(parts).toString("utf8"));
    } else {
      if (file !== null) throw new Error("it has more than one file");
      file = { field, name };
      await form.part(write);
    }
  }
  return { fields, file };
}

function dispositionOf(headers: string): { field: string; name: string | null } {
  const line = /^content-disposition:\s*form-data(.*)$/im.exec(headers)?.[1] ?? "";
  const textOf = (key: string): string | null => new RegExp(`;\\s*${key}="([^"]*)"`, "i").exec(line)?.[1] ?? null;
  const field = textOf("name");
  if (field === null) throw new Error("a part of it has no name");
  return { field, name: textOf("filename") };
}

/** Bytes with a delimiter between them. The first delimiter may stand at the very beginning, without its line's end. */
class Delimited {
  readonly #pieces: AsyncIterator<Uint8Array>;
  readonly #delimiter: Buffer;
  #held: Buffer = Buffer.from("\r\n");

  constructor(pieces: AsyncIterable<Uint8Array>, delimiter: Buffer) {
    this.#pieces = pieces[Symbol.asyncIterator]();
    this.#delimiter = delimiter;
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#pieces.next();
    if (done === true) throw new Error("it ends before its closing boundary");
    this.#held = this.#held.length === 0 ? Buffer.from(value) : Buffer.concat([this.#held, value]);
  }

  /** What stands before the first delimiter is nobody's. */
  skip(): Promise<void> {
    return this.part(async () => undefined);
  }

  /** Behind a delimiter: whether a part follows, or the form has ended. */
  async begins(): Promise<boolean> {
    while (this.#held.length < 2) await this.#more();
    const mark = this.#held.toString("latin1", 0, 2);
    if (mark !== "--" && mark !== "\r\n") throw new Error("a boundary of it is not followed by a line's end");
    this.#held = this.#held.subarray(2);
    return mark === "\r\n";
  }

  async headers(): Promise<string> {
    let end = this.#held.indexOf(END_OF_HEADERS);
    for (; end < 0; end = this.#held.indexOf(END_OF_HEADERS)) {
      if (this.#held.length > MOST_HEADERS) throw new Error("the headers of a part are too long");
      await this.#more();
    }
    const text = this.#held.toString("utf8", 0, end);
    this.#held = this.#held.subarray(end + END_OF_HEADERS.length);
    return text;
  }

  /** Hands on all up to the next delimiter, and goes behind it. */
  async part(take: (bytes: Uint8Array) => Promise<void>): Promise<void> {
    for (;;) {
      const at = this.#held.indexOf(this.#delimiter);
      const end = at >= 0 ? at : this.#held.length - this.#delimiter.length + 1; // its beginning may be there already
      if (end > 0) await take(this.#held.subarray(0, end));
      this.#held = this.#held.subarray(Math.max(0, end) + (at >= 0 ? this.#delimiter.length : 0));
      if (at >= 0) return;
      await this.#more();
    }
  }
}
