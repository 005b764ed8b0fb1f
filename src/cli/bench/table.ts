// Tables for people: a caption, a heading, aligned columns, notes below.

export interface Table {
  readonly caption: string;
  readonly head: readonly string[];
  /** Numbers are aligned to the right, with as many digits as their size asks for. */
  readonly rows: readonly (readonly (string | number)[])[];
  readonly notes?: readonly string[];
}

export function renderTable({ caption, head, rows, notes = [] }: Table): string {
  const cells = rows.map((row) => row.map((cell) => (typeof cell === "number" ? digits(cell) : cell)));
  const widths = head.map((name, c) => Math.max(name.length, ...cells.map((row) => row[c]!.length)));
  const isNumeric = head.map(
    (_, c) => rows.length > 0 && rows.every((row) => typeof row[c] === "number" || row[c] === ""),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, c) => (isNumeric[c] ? cell.padStart(widths[c]!) : cell.padEnd(widths[c]!)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return `${[caption, line(head), rule, ...cells.map(line), ...notes].join("\n")}\n`;
}

/** Three significant digits, never an exponent. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}
