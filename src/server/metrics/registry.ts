// Metrics in Prometheus' text format: samples by labels, and a registry that writes them down when it is scraped.

export type Labels = Readonly<Record<string, string | number>>;

/** What a registry writes down: one family of samples. */
export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** Each sample: what follows the name, its labels, its value. */
  samples(): Iterable<readonly [suffix: string, labels: Labels, value: number]>;
}

/** A counter or a gauge: a value for each set of labels. */
export class Samples implements Metric {
  readonly type: "counter" | "gauge";
  readonly name: string;
  readonly help: string;
  readonly #refresh: ((samples: Samples) => void) | undefined;
  readonly #values = new Map<string, { readonly labels: Labels; value: number }>();

  constructor(type: Samples["type"], name: string, help: string, refresh?: (samples: Samples) => void) {
    this.type = type;
    this.name = name;
    this.help = help;
    this.#refresh = refresh;
  }

  set(value: number, labels: Labels = {}): void {
    this.#at(labels).value = value;
  }

  add(amount = 1, labels: Labels = {}): void {
    this.#at(labels).value += amount;
  }

  clear(): void {
    this.#values.clear();
  }

  *samples(): Generator<readonly [string, Labels, number]> {
    this.#refresh?.(this);
    for (const { labels, value } of this.#values.values()) yield ["", labels, value];
  }

  #at(labels: Labels): { value: number } {
    const key = JSON.stringify(labels);
    const entry = this.#values.get(key) ?? { labels, value: 0 };
    this.#values.set(key, entry);
    return entry;
  }
}

/** Observed with every token, so a histogram is an array to count in. */
export class Histogram implements Metric {
  readonly type = "histogram";
  readonly name: string;
  readonly help: string;
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array; // [bounds + 1] observations between one bound and the next; the last is beyond all
  #sum = 0;

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number, times = 1): void {
    const bounds = this.#bounds;
    let i = 0;
    while (value > bounds[i]!) i++; // nothing is more than what is not there
    this.#counts[i]! += times;
    this.#sum += value * times;
  }

  *samples(): Generator<readonly [string, Labels, number]> {
    let total = 0;
    for (const [i, count] of this.#counts.entries()) {
      total += count;
      yield ["_bucket", { le: this.#bounds[i] ?? "+Inf" }, total];
    }
    yield ["_sum", {}, this.#sum];
    yield ["_count", {}, total];
  }
}

export class Registry {
  static readonly contentType = "text/plain; version=0.0.4; charset=utf-8";
  readonly #metrics: Metric[] = [];

  readonly #labels: Labels;

  /** `labels` stand on every sample. */
  constructor(labels: Labels = {}) {
    this.#labels = labels;
  }

  /** One value, at first 0; `read` gives it at each scrape. */
  counter(name: string, help: string, read?: () => number): Samples {
    return this.#single(this.counters(name, help, read && ((samples) => samples.set(read()))));
  }

  gauge(name: string, help: string, read?: () => number): Samples {
    return this.#single(this.gauges(name, help, read && ((samples) => samples.set(read()))));
  }

  /** A value for each set of labels; `refresh` is called before each scrape. */
  counters(name: string, help: string, refresh?: (samples: Samples) => void): Samples {
    return this.#register(new Samples("counter", name, help, refresh));
  }

  gauges(name: string, help: string, refresh?: (samples: Samples) => void): Samples {
    return this.#register(new Samples("gauge", name, help, refresh));
  }

  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    return this.#register(new Histogram(name, help, bounds));
  }

  /** A scrape. */
  text(): string {
    return this.#metrics.map((metric) => this.#familyOf(metric)).join("\n");
  }

  #single(samples: Samples): Samples {
    samples.set(0);
    return samples;
  }

  #register<M extends Metric>(metric: M): M {
    this.#metrics.push(metric);
    return metric;
  }

  #familyOf(metric: Metric): string {
    const { name, help, type } = metric;
    const lines = [`# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`, `# TYPE ${name} ${type}`];
    for (const [suffix, labels, value] of metric.samples())
      lines.push(`${name}${suffix}${labelText({ ...labels, ...this.#labels })} ${numberText(value)}`);
    return `${lines.join("\n")}\n`;
  }
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", '"': '\\"' };
const escaped = (text: string): string => text.replaceAll(/[\\\n"]/g, (c) => ESCAPES[c]!);

/** Go's spelling of what is no number. */
const numberText = (value: number): string =>
  Number.isFinite(value) ? String(value) : Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
