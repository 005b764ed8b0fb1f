// The table of docs/reference/models.md: a line for each architecture that the registry knows, in the catalogue's order.

import { CATALOG, type CatalogRow } from "./model-catalog.js";

export function familiesTable(architectures: readonly string[]): string {
  const order = Object.keys(CATALOG);
  const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  const own = architectures.filter((name) => !name.endsWith("ForConditionalGeneration"));
  const rows = [...own]
    .sort((a, b) => place(a) - place(b))
    .map((name) => {
      const row: CatalogRow = CATALOG[name] ?? { title: name, differs: "—" };
      const cells = [
        `${row.title} (\`${name}\`)`,
        row.gguf,
        row.tools,
        code(row.reasoning),
        row.context,
        row.differs,
        row.goldens,
      ];
      return `| ${cells.map((cell) => (cell ?? "—").replaceAll("|", "\\|")).join(" | ")} |`;
    });
  const head = [
    "family (`architectures`)",
    "GGUF",
    "tool calls",
    "reasoning",
    "context",
    "what differs from Llama",
    "goldens",
  ];
  return [`| ${head.join(" | ")} |`, `|${"---|".repeat(head.length)}`, ...rows].join("\n");
}

function code(text: string | undefined): string | undefined {
  return text === undefined || /^[a-z]/.test(text) ? text : `\`${text}\``;
}
