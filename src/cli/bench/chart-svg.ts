// `--svg`: bar charts, one panel each. Horizontal bars with their numbers, grouped by label: no axis needs reading.

export interface Chart {
  readonly title: string;
  readonly unit: string;
  readonly groups: readonly ChartGroup[];
}

export interface ChartGroup {
  readonly label: string;
  readonly bars: readonly { readonly name: string; readonly value: number }[];
}

const WIDTH = 720;
const LEFT = 190; // room for group labels
const RIGHT = 150; // room for values and names
const BAR = 16;
const GAP = 8; // between groups
const FONT = 'font-family="system-ui, sans-serif" font-size="11"';

export function renderChart(title: string, conditions: string, charts: readonly Chart[]): string {
  const out: string[] = [label(20, 26, title, 15), label(20, 44, conditions)];
  let y = 70;
  for (const chart of charts) {
    out.push(label(20, y, `${chart.title} (${chart.unit})`, 13));
    y = panel(out, chart, y + 12) + 28;
  }
  const size = `width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}"`;
  return [`<svg xmlns="http://www.w3.org/2000/svg" ${size} ${FONT}>`, '<rect width="100%" height="100%" fill="#fff"/>']
    .concat(out, "</svg>", "")
    .join("\n");
}

/** Returns where the panel ends. */
function panel(out: string[], { groups }: Chart, top: number): number {
  const names = [...new Set(groups.flatMap((group) => group.bars.map((bar) => bar.name)))];
  const largest = Math.max(...groups.flatMap((group) => group.bars.map((bar) => finite(bar.value))), 1e-9);
  let y = top;
  for (const group of groups) {
    out.push(label(20, y + 12, group.label));
    for (const bar of group.bars) {
      const width = Math.max(1, ((WIDTH - LEFT - RIGHT) * finite(bar.value)) / largest);
      const text = `${short(bar.value)} ${bar.name}`;
      out.push(
        `<rect x="${LEFT}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 3}" rx="2" fill="${colourOf(names.indexOf(bar.name))}"/>`,
        label(LEFT + width + 5, y + 11, text),
      );
      y += BAR;
    }
    y += GAP;
  }
  return y;
}

function finite(value: number): number {
  return Number.isFinite(value) ? Math.max(0, value) : 0;
}

function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(3);
}

function label(x: number, y: number, text: string, size = 11): string {
  const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x.toFixed(1)}" y="${y}" font-size="${size}" fill="#222">${safe}</text>`;
}

/** Hues a golden angle apart: neighbours differ, however many there are. */
function colourOf(index: number): string {
  return `hsl(${Math.round(210 + index * 137.5) % 360} 60% 62%)`;
}
