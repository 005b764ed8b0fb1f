// The log of a server: one JSON object a line, or words where a person reads along. Programs may pass a logger of their own; pino's fits.

import { stderrSink } from "./log-sink.js";
import { readableLine } from "./readable-log.js";

/** What a server needs of a logger: levels, and children that add fields to each line. */
export interface Logger {
  /** Details for debugging, such as health checks. */
  debug(fields: object, message: string): void;
  /** What happens: a line for each request. */
  info(fields: object, message: string): void;
  /** What should not happen often: clients that stop reading, unknown fields. */
  warn(fields: object, message: string): void;
  /** A fault of the server. */
  error(fields: object, message: string): void;
  /** A logger whose lines have these fields too. */
  child(fields: object): Logger;
}

/** pino's and bunyan's numbers, which log readers know. */
const LEVELS = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, silent: Number.POSITIVE_INFINITY } as const;
type Level = Exclude<keyof typeof LEVELS, "trace" | "silent">;

/** The server's own logger: JSON lines on standard error, short ones for people where that is a terminal. */
export function stderrLogger(level: keyof typeof LEVELS): Logger {
  const hasColor = process.env.NO_COLOR === undefined;
  const { write } = stderrSink;
  return lineLogger(LEVELS[level], process.stderr.isTTY ? (line) => write(readableLine(line, hasColor)) : write);
}

export function lineLogger(lowest: number, write: (line: string) => void, inherited: object = {}): Logger {
  const at = (level: Level) => (fields: object, message: string) => {
    if (LEVELS[level] < lowest) return;
    write(jsonOf(level, { ...inherited, ...fields }, message));
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => lineLogger(lowest, write, { ...inherited, ...fields }),
  };
}

function jsonOf(level: Level, fields: object, message: string): string {
  return `${JSON.stringify({ level: LEVELS[level], time: Date.now(), ...fields, msg: message }, errorFields)}\n`;
}

/** JSON has no place for an error's own fields, which are not enumerable. */
function errorFields(_name: string, value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const { name, message, stack } = value;
  return { ...value, type: name, message, stack };
}
