// Scrapes of several registries as one: each metric's lines together under one HELP and TYPE, as Prometheus wants them.

export function mergeScrapes(scrapes: readonly string[]): string {
  if (scrapes.length === 1) return scrapes[0]!;
  const families = new Map<string, { head: string[]; lines: string[] }>();
  for (const scrape of scrapes) {
    let family: { head: string[]; lines: string[] } | undefined;
    for (const line of scrape.split("\n")) {
      const name = /^# HELP (\S+)/.exec(line)?.[1];
      if (name !== undefined) {
        family = families.get(name);
        if (family === undefined) {
          family = { head: [], lines: [] };
          families.set(name, family);
        }
      }
      if (line === "" || family === undefined) continue;
      if (!line.startsWith("#")) family.lines.push(line);
      else if (!family.head.includes(line)) family.head.push(line);
    }
  }
  return [...families.values()].map(({ head, lines }) => [...head, ...lines, ""].join("\n")).join("\n");
}
