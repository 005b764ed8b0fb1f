// A line of the log as people read it at a terminal: one short line per request. Files and pipes get the JSON as it is.

import { printable } from "../../core/printable.js";

interface Line {
  readonly level: number;
  readonly time: number;
  readonly msg?: string;
  readonly method?: string;
  readonly path?: string;
  readonly status?: number;
  readonly ms?: number;
  readonly tenant?: string;
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly completionTokens?: number;
  readonly ttftMs?: number | null;
  readonly queuedMs?: number;
  readonly preemptions?: number;
  readonly failure?: { readonly code?: string; readonly message?: string };
  readonly err?: { readonly stack?: string; readonly message?: string };
  readonly [field: string]: unknown;
}

const RED = 31;
const YELLOW = 33;
const DIM = 2;

/** `json`: one line of pino's. What is no such line stays as it is. */
export function readableLine(json: string, hasColor: boolean): string {
  let line: Line;
  try {
    line = JSON.parse(json) as Line;
  } catch {
    return json;
  }
  const paint: Paint = (code, text) => (hasColor ? `\x1b[${code}m${printable(text)}\x1b[0m` : printable(text));
  const time = paint(DIM, new Date(line.time).toTimeString().slice(0, 8));
  const text = line.msg === "request" ? requestText(line, paint) : eventText(line, paint);
  return `${time}  ${text}\n`;
}

type Paint = (code: number, text: string) => string;

function requestText(line: Line, paint: Paint): string {
  const { status = 0, method, path, ms = 0, failure, err } = line;
  const color = status >= 500 ? RED : status >= 400 ? YELLOW : null;
  const head = color === null ? String(status) : paint(color, String(status));
  const why = failure === undefined ? "" : [failure.code, failure.message].filter(Boolean).join(": ");
  const parts = [
    head,
    milliseconds(ms).padStart(7),
    printable(`${method} ${path}`),
    costOf(line),
    printable(why),
  ].filter((part) => part !== "");
  return parts.join("  ") + stackOf(err, paint);
}

function costOf({ promptTokens, cachedTokens = 0, completionTokens = 0, ttftMs, ...line }: Line): string {
  if (promptTokens === undefined) return "";
  const cached = cachedTokens > 0 ? ` (${cachedTokens} cached)` : "";
  const first = ttftMs == null ? "" : `, first after ${milliseconds(ttftMs)}`;
  const queued = (line.queuedMs ?? 0) >= 100 ? `, queued ${milliseconds(line.queuedMs!)}` : "";
  const preempted = (line.preemptions ?? 0) > 0 ? `, preempted ${line.preemptions} x` : "";
  const tenant = line.tenant === undefined || line.tenant === "anonymous" ? "" : `, ${line.tenant}`;
  return `${promptTokens}${cached} + ${completionTokens} tokens${first}${queued}${preempted}${tenant}`;
}

const LEVELS: Readonly<Record<number, string>> = { 10: "trace", 20: "debug", 40: "warn", 50: "error", 60: "fatal" };

function eventText({ level, time: _, pid: _pid, hostname: _host, msg = "", err, ...rest }: Line, paint: Paint): string {
  const name =
    LEVELS[level] === undefined ? [] : [paint(level >= 50 ? RED : level >= 40 ? YELLOW : DIM, LEVELS[level])];
  const fields = Object.entries(rest).map(([key, value]) => paint(DIM, `${key}=${JSON.stringify(value)}`));
  return [...name, printable(msg), ...fields].join("  ") + stackOf(err, paint);
}

function stackOf(err: Line["err"], paint: Paint): string {
  const text = err?.stack ?? err?.message;
  return text === undefined ? "" : `\n${paint(DIM, text)}`;
}

function milliseconds(ms: number): string {
  return ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;
}
