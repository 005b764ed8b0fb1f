// Lines over time as SVG: axes from zero, a few grid lines, nothing else.

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [720, 260, 60, 40, 40];

export interface Line {
  readonly label: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

const COLORS = ["#2563c9", "#c2570c", "#15803d"];

/** Lines are told apart by their labels, at the right; a single one needs none. */
export function lineChart(title: string, xLabel: string, lines: readonly Line[]): string {
  const points = lines.flatMap((line) => line.points);
  const maxX = Math.max(...points.map((point) => point.x), 1);
  const maxY = niceAbove(Math.max(...points.map((point) => point.y), 1));
  const atX = (x: number): number => LEFT + ((WIDTH - LEFT - 20) * x) / maxX;
  const atY = (y: number): number => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * y) / maxY;
  const text = (x: number, y: number, content: string, anchor = "start"): string =>
    `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="#222">${content}</text>`;
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="11">`,
    '<rect width="100%" height="100%" fill="#fff"/>',
    text(LEFT, 22, title),
  ];
  for (let i = 0; i <= 4; i++) {
    const y = (maxY * i) / 4;
    out.push(
      `<path d="M${LEFT} ${atY(y).toFixed(1)}H${WIDTH - 20}" stroke="#ddd"/>`,
      text(LEFT - 6, atY(y) + 4, String(y), "end"),
    );
    const x = (maxX * i) / 4;
    out.push(text(atX(x), HEIGHT - BOTTOM + 16, Math.round(x).toLocaleString("en"), "middle"));
  }
  for (const [i, { label, points: places }] of lines.entries()) {
    const color = COLORS[i % COLORS.length]!;
    const path = places
      .map(({ x, y }, k) => `${k === 0 ? "M" : "L"}${atX(x).toFixed(1)} ${atY(y).toFixed(1)}`)
      .join("");
    out.push(`<path d="${path}" fill="none" stroke="${color}" stroke-width="2"/>`);
    if (label !== "")
      out.push(`<text x="${WIDTH - 24}" y="${22 + 14 * i}" text-anchor="end" fill="${color}">${label}</text>`);
  }
  out.push(text(WIDTH / 2, HEIGHT - 8, xLabel, "middle"), "</svg>", "");
  return out.join("\n");
}

/** The next of 1, 2, 4, 8 times a power of ten. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 8, 10].map((step) => step * power).find((step) => step >= value)!;
}
