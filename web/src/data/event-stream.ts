// Reads server-sent events from text as it arrives, in pieces of any size. `EventSource` cannot carry an API key, so the page
// reads them from `fetch`.

export interface StreamEvent {
  readonly event: string;
  readonly data: string;
}

export class EventStreamParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** The events that this piece completes. */
  push(text: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!; // not ended yet
    for (const ended of lines) {
      const line = ended.endsWith("\r") ? ended.slice(0, -1) : ended;
      if (line === "") {
        if (this.#data.length > 0) events.push({ event: this.#event || "message", data: this.#data.join("\n") });
        this.#event = "";
        this.#data = [];
      } else this.#field(line);
    }
    return events;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment: the server saying it is still there
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
  }
}
