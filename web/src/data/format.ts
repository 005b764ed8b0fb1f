// Numbers and ids in few characters.

export function count(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** Three figures are enough to read a rate by. */
export function rate(value: number): string {
  return value >= 100 ? count(value) : value.toFixed(value >= 10 || value === 0 ? 0 : 1);
}

export function milliseconds(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms >= 10_000 ? 0 : 1)} s`;
  return `${ms >= 10 || ms === 0 ? Math.round(ms) : ms.toFixed(1)} ms`;
}

export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/**
 * `chatcmpl-0f3a9c...-2#1` as `0f3a·2#1`: enough to tell the requests of one screen apart. -2 is the third prompt of one call, #1
 * the second sample of one prompt.
 */
export function shortId(id: string): string {
  const match = /^[a-z]+-([0-9a-f]{8,})(?:-(\d+))?(#\d+)?$/.exec(id);
  if (match === null) return id.length > 12 ? `${id.slice(0, 11)}…` : id;
  const [, name, prompt, sample = ""] = match;
  return name!.slice(0, 4) + (prompt === undefined ? "" : `·${prompt}`) + sample;
}

/** Text on one line, spaces made visible where they matter. */
export function oneLine(text: string, max: number): string {
  const line = text.replace(/\s*\n\s*/g, " ⏎ ").replace(/\s+/g, " ");
  return line.length > max ? `${line.slice(0, max - 1)}…` : line;
}
