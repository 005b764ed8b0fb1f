// The README's chart: speeds as multiples of other engines', of docs/laboratory/measured/peers.json.
//   node scripts/draw-peers.mjs [--check]   writes docs/images/peers.svg, or says whether it is what the file gives
import { readFileSync, writeFileSync } from "node:fs";

const [WIDTH, LEFT, RIGHT, ROW, HEAD] = [760, 200, 180, 22, 44];
const MOST = 5;

function peersChart(runs) {
  const xOf = (ratio) => LEFT + ((WIDTH - LEFT - RIGHT) * ratio) / MOST;
  const text = (x, y, content, more = "") => `<text x="${x}" y="${y}" ${more}>${content}</text>`;
  const out = [];
  let y = 26;
  out.push(text(16, y, "Speed, as multiples of other engines'", 'font-weight="600" font-size="14"'));
  for (const { title, date, name, unit, rows } of runs) {
    y += HEAD;
    out.push(text(16, y, `${title} (${date})`, 'font-weight="600"'));
    const top = y + 8;
    for (const { what, pagoda, peer } of rows) {
      y += ROW;
      const ratio = unit === "us" ? peer / pagoda : pagoda / peer;
      out.push(
        text(LEFT - 8, y, what, 'text-anchor="end"'),
        `<rect x="${LEFT}" y="${y - 13}" width="${(xOf(ratio) - LEFT).toFixed(1)}" height="17" rx="2" fill="#b5382b"/>`,
        text(
          (xOf(Math.max(1, ratio)) + 6).toFixed(1),
          y,
          `${ratio.toFixed(ratio < 1.5 ? 2 : 1)} x`,
          'font-weight="600"',
        ),
        text(
          WIDTH - 16,
          y,
          `${pagoda.toLocaleString("en")} / ${peer.toLocaleString("en")} ${unit}`,
          'text-anchor="end" fill="#57534e"',
        ),
      );
    }
    out.push(`<path d="M${xOf(1)} ${top}V${y + 8}" stroke="#1c1b1a" stroke-dasharray="3 3"/>`);
    out.push(text(xOf(1), y + 22, name, 'text-anchor="middle" font-size="11"'));
  }
  const height = y + 36;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#1c1b1a" role="img">
<title>Speed of Pagoda as multiples of other engines'</title>
<rect width="100%" height="100%" rx="8" fill="#fff"/>
${out.join("\n")}
</svg>
`;
}

const runs = JSON.parse(readFileSync("docs/laboratory/measured/peers.json", "utf8"));
const [path, chart] = ["docs/images/peers.svg", peersChart(runs)];
if (process.argv[2] !== "--check") writeFileSync(path, chart);
else process.exitCode = readFileSync(path, "utf8") === chart ? 0 : 1;
